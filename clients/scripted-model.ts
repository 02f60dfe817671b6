import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The model id at the scripted server, and in Switchyard. */
export const MODEL = 'scripted-coder'
/** As small as the context of many local models, so that the 32,000 tokens that agents ask for do not fit. */
export const CONTEXT_TOKENS = 32_768

/** A model server that answers every coding agent with the same two tool calls: write a file, then read it. */
export interface ScriptedModel {
  /** Ends in `/v1`. */
  readonly baseUrl: string
  /** The requests with tools, in order of arrival. */
  readonly turns: readonly Turn[]
  close(): Promise<void>
}

export interface Turn {
  readonly maxTokens: unknown
  readonly tools: number
  /** The tool that the answer calls; undefined for the final text. */
  readonly calls: string | undefined
}

/** The file that the model writes, and its content. */
export interface Task {
  readonly path: string
  readonly content: string
}

/** Starts the server on a free port of loopback. The final answer repeats the content that the agent has read. */
export async function startScriptedModel(task: Task): Promise<ScriptedModel> {
  const turns: Turn[] = []
  const server = createServer(async (request, response) => {
    if (request.method === 'GET') {
      const data = [{ id: MODEL, object: 'model', created: 1, owned_by: 'scripted', max_model_len: CONTEXT_TOKENS }]
      response.setHeader('content-type', 'application/json').end(JSON.stringify({ object: 'list', data }))
      return
    }
    const body = await readBody(request)
    const answer = answerTo(body, task)
    if (body.tools?.length) {
      turns.push({ maxTokens: body.max_tokens, tools: body.tools.length, calls: answer.tool_calls?.[0]?.function.name })
    }
    if (body.stream) {
      response.setHeader('content-type', 'text/event-stream')
      for (const event of streamOf(answer)) response.write(`data: ${JSON.stringify(event)}\n\n`)
      response.end('data: [DONE]\n\n')
    } else {
      const choices = [{ index: 0, message: answer, finish_reason: finishOf(answer) }]
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ id: 'x', object: 'chat.completion', created: 1, model: MODEL, choices, usage }))
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    turns,
    async close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

interface Body {
  readonly stream?: boolean
  readonly max_tokens?: number
  readonly messages: readonly { readonly role: string; readonly content: unknown }[]
  readonly tools?: readonly Tool[]
}

interface Tool {
  readonly function: { readonly name: string; readonly parameters?: { readonly properties?: Record<string, unknown> } }
}

interface Message {
  readonly role: 'assistant'
  readonly content: string | null
  readonly tool_calls?: readonly { id: string; type: 'function'; function: { name: string; arguments: string } }[]
}

const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 }

function answerTo({ tools = [], messages }: Body, { path, content }: Task): Message {
  const results = messages.filter(({ role }) => role === 'tool')
  const write = toolNamed(tools, /^(write|write_?file|create_new_file)$/i)
  const read = toolNamed(tools, /^(read|read_?file)$/i)
  const shell = toolNamed(tools, /^(shell|shell_command|exec_command)$/)
  if (shell && results.length < 2) {
    const step = results.length === 0 ? `printf %s '${content}' > '${path}'` : `cat '${path}'`
    return call(`shell_${results.length}`, shell, commandOf(shell, step))
  }
  if (!shell && (!write || !read)) return { role: 'assistant', content: 'A title' }
  if (write && read && results.length === 0)
    return call('write', write, { [pathField(write)]: path, [contentField(write)]: content })
  if (write && read && results.length === 1) return call('read', read, { [pathField(read)]: path })
  const found = JSON.stringify(results.at(-1)!.content).includes(content)
  return { role: 'assistant', content: found ? `The file says: ${content}` : 'The file does not have the text.' }
}

function toolNamed(tools: readonly Tool[], name: RegExp): Tool['function'] | undefined {
  return tools.find(tool => name.test(tool.function.name))?.function
}

/** The parameter for the path differs between agents: path, filePath, file_path, filepath, absolute_path. */
function pathField({ parameters, name }: Tool['function']): string {
  return fieldNamed(/path/i, parameters?.properties, name)
}

/** Codex runs commands: as a text in `cmd` or `command`, or as a list of arguments in `command`. */
function commandOf({ parameters }: Tool['function'], line: string): object {
  const properties = parameters?.properties ?? {}
  if ('cmd' in properties) return { cmd: line }
  const isList = (properties.command as { type?: unknown } | undefined)?.type === 'array'
  return { command: isList ? ['bash', '-c', line] : line }
}

function contentField({ parameters, name }: Tool['function']): string {
  return fieldNamed(/^content/i, parameters?.properties, name)
}

function fieldNamed(pattern: RegExp, properties: Record<string, unknown> = {}, tool: string): string {
  const field = Object.keys(properties).find(key => pattern.test(key))
  if (field === undefined)
    throw new Error(`the tool ${tool} has no parameter like ${pattern}: ${Object.keys(properties)}`)
  return field
}

function call(id: string, { name }: Tool['function'], parameters: object): Message {
  const tool_calls = [
    { id: `call_${id}`, type: 'function' as const, function: { name, arguments: JSON.stringify(parameters) } },
  ]
  return { role: 'assistant', content: null, tool_calls }
}

function* streamOf({ content, tool_calls }: Message): Generator<object> {
  const chunk = (delta: object, finish_reason: string | null = null) => {
    const choices = [{ index: 0, delta, finish_reason }]
    return { id: 'x', object: 'chat.completion.chunk', created: 1, model: MODEL, choices }
  }
  yield chunk({ role: 'assistant', content: '' })
  for (const word of content?.split(/(?<= )/) ?? []) yield chunk({ content: word })
  for (const [index, { id, type, function: called }] of (tool_calls ?? []).entries()) {
    yield chunk({ tool_calls: [{ index, id, type, function: { name: called.name, arguments: '' } }] })
    // In pieces, as models send them.
    for (const piece of called.arguments.match(/.{1,12}/gs) ?? []) {
      yield chunk({ tool_calls: [{ index, function: { arguments: piece } }] })
    }
  }
  yield chunk({}, finishOf({ role: 'assistant', content, ...(tool_calls && { tool_calls }) }))
  yield { id: 'x', object: 'chat.completion.chunk', created: 1, model: MODEL, choices: [], usage }
}

function finishOf({ tool_calls }: Message): string {
  return tool_calls === undefined ? 'stop' : 'tool_calls'
}

async function readBody(request: IncomingMessage): Promise<Body> {
  let text = ''
  for await (const part of request.setEncoding('utf8')) text += part
  return JSON.parse(text) as Body
}
