// What the official TypeScript SDK reads: as `python_reader.py`; the argument is `node_modules`.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const load = (path) => import(pathToFileURL(`${process.argv[2]}/${path}`));
const SDK = "@modelcontextprotocol/sdk/dist/esm";
const { ReadBuffer } = await load(`${SDK}/shared/stdio.js`);
const { CallToolRequestSchema, JSONRPCMessageSchema } = await load(`${SDK}/types.js`);
const { createParser } = await load("eventsource-parser/dist/index.js");

function read(message) {
  if (message.method !== "tools/call") return message;
  const { success, data } = CallToolRequestSchema.safeParse(message);
  if (!success) return message;
  return { ...message, call: { name: data.params.name, arguments: data.params.arguments ?? {} } };
}

function attempt(found, reading) {
  try {
    for (const one of reading()) found.push(read(one));
  } catch {
    // Such a message the SDK reports as an error, and goes on.
  }
}

function byLines(data) {
  const buffer = new ReadBuffer();
  const found = [];
  buffer.append(data);
  for (let more = true; more; ) {
    attempt(found, () => {
      const message = buffer.readMessage();
      more = message !== null;
      return more ? [message] : [];
    });
  }
  return found;
}

// As the server's transport over HTTP reads a body, and the client's an answer that is no stream.
function byBody(found, body) {
  attempt(found, () => {
    const raw = JSON.parse(new TextDecoder().decode(body));
    return (Array.isArray(raw) ? raw : [raw]).map((one) => JSONRPCMessageSchema.parse(one));
  });
  return found;
}

function byBodies(data) {
  const found = [];
  for (let from = 0; from < data.length; ) {
    const newline = data.indexOf(10, from);
    const end = newline < 0 ? data.length : newline;
    byBody(found, data.subarray(from, end));
    from = end + 1;
  }
  return found;
}

function byEvents(pieces) {
  const found = [];
  const onEvent = ({ event, data }) => {
    if (data && (!event || event === "message")) {
      attempt(found, () => [JSONRPCMessageSchema.parse(JSON.parse(data))]);
    }
  };
  const parser = createParser({ onEvent });
  const decoder = new TextDecoder();
  for (const piece of pieces) parser.feed(decoder.decode(piece, { stream: true }));
  parser.feed(decoder.decode());
  return found;
}

// What JSON cannot say must not look like null.
const exact = (_, value) =>
  typeof value === "number" && !Number.isFinite(value) ? { $number: String(value) } : value;

function take(mode, pieces) {
  const data = Buffer.concat(pieces);
  if (mode === "stream") return { events: byEvents(pieces) };
  if (mode === "body") return { body: byBody([], data) };
  return { lines: byLines(data), bodies: byBodies(data) };
}

for await (const line of createInterface({ input: process.stdin })) {
  const [mode, said = ""] = line.split(" ");
  const pieces = said.split(",").map((one) => Buffer.from(one, "hex"));
  process.stdout.write(`${JSON.stringify(take(mode, pieces), exact)}\n`);
}
