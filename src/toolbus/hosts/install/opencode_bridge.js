// toolbus in OpenCode: every tool call, result and prompt is judged by the hook command.
// A failure here blocks: a call or prompt is denied, a result is replaced by a notice.
import { spawn } from "node:child_process"

const SETTINGS = null

const MAX_ANSWER = 256 * 1024 * 1024

function failed(reason) {
  return { block: `toolbus: ${reason}, so this was blocked` }
}

function read(text) {
  const answer = JSON.parse(text)
  if (typeof answer !== "object" || answer === null || Array.isArray(answer)) throw new Error()
  return answer
}

// No shell and no environment variables: neither is trusted.
function ask(event, folder, payload) {
  return new Promise((resolve) => {
    try {
      const [program, ...args] = SETTINGS.command
      const child = spawn(program, [...args, event], { cwd: folder, env: {}, stdio: ["pipe", "pipe", "ignore"] })
      const pieces = []
      let size = 0
      const stop = (reason) => {
        clearTimeout(timer)
        child.kill("SIGKILL")
        resolve(failed(reason))
      }
      const timer = setTimeout(() => stop("the hook command took too long"), SETTINGS.limit_ms)
      child.on("error", () => stop("the hook command could not be started"))
      child.stdin.on("error", () => {})
      child.stdout.on("data", (piece) => {
        size += piece.length
        if (size > MAX_ANSWER) stop("the hook command wrote too much")
        else pieces.push(piece)
      })
      child.on("close", (code) => {
        clearTimeout(timer)
        if (code !== 0) return resolve(failed("the hook command failed"))
        try {
          resolve(read(Buffer.concat(pieces).toString("utf8")))
        } catch {
          resolve(failed("the hook command gave no answer"))
        }
      })
      child.stdin.end(JSON.stringify(payload))
    } catch {
      resolve(failed("the hook command could not be started"))
    }
  })
}

// The other members are for the screen and the session file, and may repeat the result.
function replaceResult(output, result) {
  const text = typeof result === "string" ? result : result.map((block) => block.text ?? "").join("\n")
  if (Array.isArray(output.content)) output.content = typeof result === "string" ? [{ type: "text", text }] : result
  else output.output = text
  if ("structuredContent" in output) delete output.structuredContent
  if (output.attachments) output.attachments = []
  if (output.metadata) output.metadata = "output" in output.metadata ? { output: text } : {}
}

export const Toolbus = async ({ directory }) => {
  const failures = new Map()
  const refusals = new Map()
  const tell = (event, session, facts) => ask(event, directory, { session_id: session, folder: directory, ...facts })

  async function failureText(part) {
    const facts = { call_id: part.callID, tool: part.tool, arguments: part.state.input ?? {} }
    const answer = await tell("tool.failed", part.sessionID, { ...facts, result: part.state.error, is_error: true })
    if (answer.block !== undefined) return String(answer.block)
    return answer.result === undefined ? part.state.error : String(answer.result)
  }

  return {
    "tool.execute.before": async (input, output) => {
      const facts = { call_id: input.callID, tool: input.tool, arguments: output.args ?? {} }
      const answer = await tell("tool.execute.before", input.sessionID, facts)
      if (answer.block !== undefined) {
        refusals.set(input.callID, String(answer.block))
        throw new Error(String(answer.block))
      }
      if (answer.arguments === undefined) return
      for (const name of Object.keys(output.args)) delete output.args[name]
      Object.assign(output.args, answer.arguments)
    },

    "tool.execute.after": async (input, output) => {
      const facts = { call_id: input.callID, tool: input.tool, arguments: input.args ?? {} }
      const result = Array.isArray(output.content) ? output.content : output.output ?? ""
      const answer = await tell("tool.execute.after", input.sessionID, { ...facts, result, is_error: output.isError === true })
      if (answer.block !== undefined) replaceResult(output, String(answer.block))
      else if (answer.result !== undefined) replaceResult(output, answer.result)
    },

    // No hook runs for a tool that throws: its message is replaced in the request to the model.
    "experimental.chat.messages.transform": async (_, { messages }) => {
      for (const part of messages.flatMap((message) => message.parts)) {
        if (part.type !== "tool" || part.state.status !== "error") continue
        if (refusals.get(part.callID) === part.state.error) continue
        const key = `${part.id} ${part.state.error}`
        if (!failures.has(key)) failures.set(key, await failureText(part))
        part.state = { ...part.state, error: failures.get(key) }
      }
    },

    "chat.message": async (input, output) => {
      const text = output.parts.filter((part) => part.type === "text").map((part) => part.text).join("\n")
      const answer = await tell("chat.message", input.sessionID, { text })
      if (answer.block !== undefined) throw new Error(String(answer.block))
      const last = output.parts.at(-1)
      if (answer.context !== undefined && last)
        output.parts.push({ id: `${last.id}z`, sessionID: last.sessionID, messageID: last.messageID, type: "text", text: String(answer.context), synthetic: true })
    },

    "experimental.text.complete": async (input, output) => {
      await tell("experimental.text.complete", input.sessionID, { text: output.text })
    },
  }
}
