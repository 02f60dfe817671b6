#!/usr/bin/env node
import { randomUUID } from 'node:crypto'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

// Runs the program of docs/clients/copilotkit.md, and plays the browser of its user: sends the prompt to CopilotKit's
// runtime, runs the tools that the agent calls, and prints its answer. A program like the coding agents, for run.ts.

const { SWITCHYARD_BASE_URL: baseUrl, SWITCHYARD_MODEL: model } = process.env
const prompt = process.argv[2]!
const TURNS_MAX = 5

/** An event of the protocol between agents and browsers, AG-UI. */
interface AgentEvent {
  readonly type: string
  readonly delta?: string
  readonly message?: string
  readonly toolCallId?: string
  readonly toolCallName?: string
}

interface Call {
  readonly id: string
  readonly name: string
  arguments: string
}

type Tool = (parameters: { path: string; content?: string }) => string

const tools: Readonly<Record<string, Tool>> = {
  write_file({ path, content = '' }) {
    writeFileSync(path, content)
    return 'written'
  },
  read_file: ({ path }) => readFileSync(path, 'utf8'),
}
const text = { type: 'string' }
const offered = [
  { name: 'write_file', description: 'Writes a file', parameters: parametersOf({ path: text, content: text }) },
  { name: 'read_file', description: 'Reads a file', parameters: parametersOf({ path: text }) },
]

function parametersOf(properties: Readonly<Record<string, object>>): object {
  return { type: 'object', properties, required: Object.keys(properties) }
}

const { POST } = await loadPage()
const threadId = randomUUID()
const messages: object[] = [{ id: randomUUID(), role: 'user', content: prompt }]
for (let turn = 0; turn < TURNS_MAX; turn++) {
  const { said, calls } = await ask()
  if (calls.length === 0) {
    console.log(said)
    process.exit(0)
  }
  const toolCalls = calls.map(({ id, name, arguments: json }) => ({
    id,
    type: 'function',
    function: { name, arguments: json },
  }))
  messages.push({ id: randomUUID(), role: 'assistant', content: said, toolCalls })
  for (const { id, name, arguments: json } of calls)
    messages.push({ id: randomUUID(), role: 'tool', toolCallId: id, content: tools[name]!(JSON.parse(json)) })
}
throw new Error(`The agent still calls tools after ${TURNS_MAX} turns.`)

/** Runs the page's program from this folder, where its packages are installed. */
async function loadPage(): Promise<{ POST(request: Request): Promise<Response> }> {
  const page = readFileSync(new URL('../docs/clients/copilotkit.md', import.meta.url), 'utf8')
  const program = /^```ts\n(.*?)^```$/ms
    .exec(page)![1]!
    .replace('http://127.0.0.1:8080/v1', baseUrl!)
    .replace("'demo'", JSON.stringify(model))
  const file = fileURLToPath(new URL(`.copilotkit-${process.pid}.ts`, import.meta.url))
  writeFileSync(file, program)
  try {
    return await import(file)
  } finally {
    rmSync(file)
  }
}

async function ask(): Promise<{ said: string; calls: readonly Call[] }> {
  const run = { threadId, runId: randomUUID(), state: {}, messages, tools: offered, context: [], forwardedProps: {} }
  const response = await POST(
    new Request('http://127.0.0.1/api/copilotkit/agent/default/run', {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'text/event-stream' },
      body: JSON.stringify(run),
    }),
  )
  const body = await response.text()
  let said = ''
  const calls: Call[] = []
  for (const line of body.split('\n').filter(line => line.startsWith('data: '))) {
    const event = JSON.parse(line.slice('data: '.length)) as AgentEvent
    if (event.type === 'RUN_ERROR') fail(event.message ?? body)
    if (event.type.startsWith('TEXT_MESSAGE')) said += event.delta ?? ''
    if (event.type === 'TOOL_CALL_START')
      calls.push({ id: event.toolCallId!, name: event.toolCallName!, arguments: '' })
    if (event.type === 'TOOL_CALL_ARGS') calls.find(({ id }) => id === event.toolCallId)!.arguments += event.delta ?? ''
  }
  if (!response.ok) fail(`${response.status} ${body}`)
  return { said, calls }
}

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}
