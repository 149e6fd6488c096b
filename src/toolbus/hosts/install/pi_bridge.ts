// toolbus in pi: every tool call, result and prompt is judged by the hook command.
// A failure here blocks: a call is denied, a result is replaced by a notice.
import { spawn } from "node:child_process"

const SETTINGS = null

const MAX_ANSWER = 256 * 1024 * 1024

function failed(reason: string) {
  return { block: `toolbus: ${reason}, so this was blocked` }
}

function read(text: string) {
  const answer = JSON.parse(text)
  if (typeof answer !== "object" || answer === null || Array.isArray(answer)) throw new Error()
  return answer
}

// No shell and no environment variables: neither is trusted.
function ask(event: string, folder: string, payload: object): Promise<any> {
  return new Promise((resolve) => {
    try {
      const [program, ...args] = SETTINGS.command
      const child = spawn(program, [...args, event], { cwd: folder, env: {}, stdio: ["pipe", "pipe", "ignore"] })
      const pieces: Buffer[] = []
      let size = 0
      const stop = (reason: string) => {
        clearTimeout(timer)
        child.kill("SIGKILL")
        resolve(failed(reason))
      }
      const timer = setTimeout(() => stop("the hook command took too long"), SETTINGS.limit_ms)
      child.on("error", () => stop("the hook command could not be started"))
      child.stdin.on("error", () => {})
      child.stdout.on("data", (piece: Buffer) => {
        size += piece.length
        if (size > MAX_ANSWER) stop("the hook command wrote too much")
        else pieces.push(piece)
      })
      child.on("close", (code: number | null) => {
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

function lastText(messages: any[]): string {
  const message = messages.findLast((item) => item.role === "assistant")
  return (message?.content ?? []).filter((part: any) => part.type === "text").map((part: any) => part.text).join("\n")
}

export default function (pi: any) {
  let waiting = ""
  const tell = (event: string, ctx: any, facts: object) =>
    ask(event, ctx.cwd, { session_id: ctx.sessionManager.getSessionId(), folder: ctx.cwd, can_ask: ctx.hasUI, ...facts })

  pi.on("tool_call", async (event: any, ctx: any) => {
    const facts = { call_id: event.toolCallId, tool: event.toolName, arguments: event.input }
    const answer = await tell("tool_call", ctx, facts)
    if (answer.block !== undefined) return { block: true, reason: String(answer.block) }
    if (answer.ask !== undefined && !(await ctx.ui.confirm("toolbus", String(answer.ask))))
      return { block: true, reason: "toolbus: the person at the screen refused this call" }
    if (answer.arguments !== undefined) {
      for (const name of Object.keys(event.input)) delete event.input[name]
      Object.assign(event.input, answer.arguments)
    }
  })

  pi.on("tool_result", async (event: any, ctx: any) => {
    const facts = { call_id: event.toolCallId, tool: event.toolName, arguments: event.input }
    const answer = await tell("tool_result", ctx, { ...facts, result: event.content, is_error: event.isError })
    // `details` is for the screen and the session file, and may repeat the result.
    if (answer.block !== undefined) return { content: [{ type: "text", text: String(answer.block) }], details: {}, isError: true }
    if (answer.result !== undefined) return { content: answer.result, details: {} }
  })

  pi.on("input", async (event: any, ctx: any) => {
    const answer = await tell("input", ctx, { text: event.text })
    if (answer.context !== undefined) waiting = String(answer.context)
    if (answer.block === undefined) return { action: "continue" }
    if (ctx.hasUI) ctx.ui.notify(String(answer.block), "error")
    else console.error(String(answer.block))
    return { action: "handled" }
  })

  pi.on("before_agent_start", async () => {
    const content = waiting
    waiting = ""
    if (content) return { message: { customType: "toolbus", content, display: false } }
  })

  pi.on("agent_end", async (event: any, ctx: any) => void (await tell("agent_end", ctx, { text: lastText(event.messages) })))
  pi.on("session_start", async (_: any, ctx: any) => void (await tell("session_start", ctx, {})))
  pi.on("session_shutdown", async (_: any, ctx: any) => void (await tell("session_shutdown", ctx, {})))
}
