// A host for a bridge of ours: it fires one event, and prints what became of it.
// Words: the bridge's file, and the event as JSON: {host, event, screen, answer}.
import { pathToFileURL } from "node:url"

const [file, text] = process.argv.slice(2)
const { host, event, screen } = JSON.parse(text)
const bridge = await import(pathToFileURL(file))
const folder = process.cwd()
const SECRET = "the-planted-word"

async function fireInPi() {
  const handlers = {}
  bridge.default({ on: (name, handler) => (handlers[name] = handler) })
  const shown = []
  const ui = { notify: (words) => shown.push(words), confirm: async () => screen === "yes" }
  const ctx = { cwd: folder, hasUI: screen !== "none", ui, sessionManager: { getSessionId: () => "s1" } }
  const call = { toolCallId: "c1", toolName: "bash", input: { command: SECRET, timeout: 5 } }
  const content = [{ type: "text", text: SECRET }]
  const facts = { ...call, content, isError: false, text: SECRET, messages: [] }
  const returned = await handlers[event](facts, ctx)
  const later = await handlers.before_agent_start({}, ctx)
  return { returned, input: facts.input, shown, later }
}

async function fireInOpenCode() {
  const hooks = await bridge.Toolbus({ directory: folder })
  const input = { tool: "bash", sessionID: "s1", callID: "c1", args: {} }
  const outputs = {
    "tool.execute.before": { args: { command: SECRET, timeout: 5 } },
    "tool.execute.after": { title: "t", output: SECRET, metadata: { output: SECRET, diff: SECRET }, attachments: [SECRET] },
    "mcp": { content: [{ type: "text", text: SECRET }], structuredContent: { a: SECRET } },
    "chat.message": { message: {}, parts: [{ id: "prt_1", sessionID: "s1", messageID: "m1", type: "text", text: SECRET }] },
    "experimental.chat.messages.transform": {
      messages: [{ parts: [{ id: "p1", type: "tool", tool: "read", callID: "c1", sessionID: "s1", state: { status: "error", input: {}, error: SECRET } }] }],
    },
    "experimental.text.complete": { text: SECRET },
  }
  const output = outputs[event]
  try {
    await hooks[event === "mcp" ? "tool.execute.after" : event](input, output)
    return { output }
  } catch (error) {
    return { thrown: error.message, output }
  }
}

console.log(JSON.stringify(await (host === "pi" ? fireInPi() : fireInOpenCode())))
