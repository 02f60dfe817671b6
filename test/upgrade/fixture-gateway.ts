import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { freePort } from '../../bench/free-port.ts'

export const MODEL_KEY = 'key-of-the-hoster'

export interface ModelServer {
  readonly baseUrl: string
  /** The values of `authorization` that arrived. */
  readonly authorizations: readonly string[]
  close(): Promise<void>
}

/** A model server whose answers cost 1,000 input and 500 output tokens. A request that says `hang` gets the start of a stream only. */
export async function startModelServer(): Promise<ModelServer> {
  const authorizations: string[] = []
  const server = createServer(async (request, response) => {
    authorizations.push(request.headers.authorization ?? '')
    const body = JSON.parse((await text(request)) || '{}')
    const usage = { prompt_tokens: 1_000, completion_tokens: 500, total_tokens: 1_500 }
    const base = { id: 'a', created: 1, model: body.model }
    if (body.stream !== true) {
      const message = { role: 'assistant', content: 'A tram to the harbour. '.repeat(40) }
      response.setHeader('content-type', 'application/json')
      response.end(
        JSON.stringify({
          ...base,
          object: 'chat.completion',
          choices: [{ index: 0, message, finish_reason: 'stop' }],
          usage,
        }),
      )
      return
    }
    const send = (choices: unknown, more = {}) =>
      response.write(`data: ${JSON.stringify({ ...base, object: 'chat.completion.chunk', choices, ...more })}\n\n`)
    response.setHeader('content-type', 'text/event-stream')
    send([{ index: 0, delta: { role: 'assistant', content: 'A tram to the harbour.' }, finish_reason: null }])
    if (JSON.stringify(body.messages).includes('hang')) return
    send([{ index: 0, delta: {}, finish_reason: 'stop' }])
    send([], { usage })
    response.end('data: [DONE]\n\n')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  return {
    baseUrl: `http://127.0.0.1:${port}/v1`,
    authorizations,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** The configuration of a fixture, when it is made and when it is tested. `more` is what only its version knows. */
export function fixtureConfig({ baseUrl }: Pick<ModelServer, 'baseUrl'>, more: object = {}): string {
  const price = { input: '1', output: '4' }
  const model = { id: 'tram', context_tokens: 8_192, max_output_tokens: 1_024, price_per_million_usd: price }
  return JSON.stringify({
    endpoints: [{ name: 'local', kind: 'local', base_url: baseUrl, models: [model] }],
    detect: { enabled: false, cloud: false },
    demo: { enabled: false },
    hosters: { allow_private_urls: true },
    alerts: { allow_private_urls: true },
    ...more,
  })
}

/** Options of the version of 2026-11-26. */
export const marketOptions = {
  payments: { manual: { instructions: 'Send {amount} and quote {reference}.' } },
  payouts: { hold_days: 0, min_usd: '0.001' },
  trust: { audits: false },
}

export interface Program {
  /** The command line that runs `switchyard`. */
  readonly command: readonly string[]
  readonly directory: string
  readonly env: Readonly<Record<string, string>>
}

/** Runs a command of the program. Throws when it fails. */
export async function runProgram({ command, directory, env }: Program, args: readonly string[]): Promise<string> {
  const child = spawn(command[0]!, [...command.slice(1), ...args], {
    cwd: directory,
    env: { PATH: process.env.PATH!, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  if (code !== 0) throw new Error(`switchyard ${args.join(' ')}: ${code}\n${out}${err}`)
  return out
}

export interface RunningProgram {
  readonly url: string
  /** Ends it as a crash would. */
  kill(): Promise<void>
  stop(): Promise<void>
}

/** Times that a start is asked whether it is ready, 100 ms apart. */
const READY_ASKED_MAX = 900

/** Runs `switchyard start` until it is ready. */
export async function startProgram({ command, directory, env }: Program): Promise<RunningProgram> {
  mkdirSync(directory, { recursive: true })
  const port = await freePort()
  const child = spawn(command[0]!, [...command.slice(1), 'start'], {
    cwd: directory,
    env: {
      PATH: process.env.PATH!,
      HOST: '127.0.0.1',
      PORT: String(port),
      METRICS_PORT: '0',
      LOG_LEVEL: 'warn',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'close')
  let log = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', data => {
      log += data
    })
  const url = `http://127.0.0.1:${port}`
  const end = async (signal: NodeJS.Signals) => {
    child.kill(signal)
    await exited
  }
  for (let asked = 0; ; asked++) {
    if (child.exitCode !== null) throw new Error(`the gateway exited:\n${log}`)
    if (asked === READY_ASKED_MAX) {
      await end('SIGKILL')
      throw new Error(`the gateway is not ready:\n${log}`)
    }
    const isReady = await fetch(`${url}/readyz`).then(
      response => response.ok,
      () => false,
    )
    if (isReady) return { url, kill: () => end('SIGKILL'), stop: () => end('SIGTERM') }
    await new Promise(resolve => setTimeout(resolve, 100))
  }
}

// biome-ignore lint/suspicious/noExplicitAny: what another version answers has no type here
export type Answer = Record<string, any>

/** What a page of the console sends. */
export class Browser {
  readonly #url: string
  #cookie = ''

  constructor(url: string) {
    this.#url = url
  }

  async post(path: string, body: object, headers: Record<string, string> = {}): Promise<Answer> {
    const response = await fetch(`${this.#url}/console/api/${path}`, {
      method: 'POST',
      headers: {
        'sec-fetch-site': 'same-origin',
        'content-type': 'application/json',
        cookie: this.#cookie,
        ...headers,
      },
      body: JSON.stringify(body),
    })
    const answer = await response.text()
    if (!response.ok) throw new Error(`${path}: ${response.status} ${answer}`)
    const cookies = response.headers.getSetCookie().map(set => set.split(';')[0]!)
    if (cookies.length > 0) this.#cookie = cookies.join('; ')
    return answer === '' ? {} : JSON.parse(answer)
  }
}

/** Asks for an answer and returns the status. */
export async function chatStatus(url: string, key: string, model: string): Promise<number> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Which tram?' }], max_tokens: 100 }),
  })
  await response.text()
  return response.status
}
