import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { DemoLanguage } from '../src/wire/demo-model/demo-language.ts'
import { estimateTokens } from '../src/wire/tokens/count-tokens.ts'
import { generate, type ModelToken, type ModelTraits } from './simulated-model.ts'

/** How a simulated server behaves. */
export interface ServerBehaviour {
  readonly traits: ModelTraits
  readonly firstTokenMs: number
  readonly tokensPerSecond: number
  /** The part of requests that fails with 500, at a moment of the demo. */
  readonly failureShare: (elapsedS: number) => number
  /** The part of streams that breaks in the middle. */
  readonly breakShare: number
  /** Reported tokens divided by real ones. 1 is honest. */
  readonly reportFactor: number
  /** The model that answers instead, for this part of the requests. */
  readonly swap?: { readonly traits: ModelTraits; readonly share: number }
}

export interface SimulatedServer {
  /** Ends in `/v1`. */
  readonly baseUrl: string
  close(): Promise<void>
}

/** The model that all simulated servers say they serve. */
export interface ServedModel {
  readonly id: string
  readonly contextTokens: number
  readonly maxOutputTokens: number
}

interface ChatBody {
  readonly messages: readonly { readonly content: unknown }[]
  readonly stream?: boolean
  readonly temperature?: number
  readonly max_tokens?: number
  readonly logprobs?: boolean
  readonly stream_options?: { readonly include_usage?: boolean }
}

/** Starts a server with OpenAI's API on loopback. `extraPaths` answers other GET requests, such as a challenge. */
export async function startSimulatedServer(
  language: DemoLanguage,
  model: ServedModel,
  behaviour: ServerBehaviour,
  extraPaths: (path: string) => string | undefined = () => undefined,
): Promise<SimulatedServer> {
  const startedMs = performance.now()
  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy())
  })

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method === 'GET') {
      const extra = extraPaths(request.url!)
      const list = { object: 'list', data: [{ id: model.id, object: 'model', max_model_len: model.contextTokens }] }
      if (extra !== undefined) response.end(extra)
      else send(response, request.url === '/v1/models' ? 200 : 404, list)
      return
    }
    const body = JSON.parse(await textOf(request)) as ChatBody
    const elapsedS = (performance.now() - startedMs) / 1000
    if (Math.random() < behaviour.failureShare(elapsedS)) {
      send(response, 500, { error: { message: 'The simulated server failed.', type: 'server_error' } })
      return
    }
    const prompt = body.messages.map(({ content }) => textOfContent(content)).join('\n')
    const isSwapped = behaviour.swap !== undefined && Math.random() < behaviour.swap.share
    const traits = isSwapped ? behaviour.swap!.traits : behaviour.traits
    const tokens = [
      ...generate(language, traits, {
        prompt,
        temperature: body.temperature ?? 1,
        maxTokens: Math.min(body.max_tokens ?? 400, model.maxOutputTokens, 400),
      }),
    ]
    const text = tokens.map(each => each.text).join('')
    const report = (count: number) => Math.max(1, Math.round(count * behaviour.reportFactor))
    const promptTokens = report(estimateTokens(prompt))
    const completionTokens = report(estimateTokens(text))
    const usage = {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
    }
    await delay(behaviour.firstTokenMs * (0.7 + Math.random() * 0.6))
    const shell = { id: 'chatcmpl-simulated', created: Math.floor(Date.now() / 1000), model: model.id }
    if (body.stream === true) await stream(response, body, tokens, { shell, usage })
    else {
      await delay((tokens.length / behaviour.tokensPerSecond) * 1000)
      const choice = { index: 0, message: { role: 'assistant', content: text.trim() }, finish_reason: 'stop' }
      const logprobs = body.logprobs === true ? { logprobs: { content: tokens.map(logprobOf) } } : {}
      send(response, 200, { ...shell, object: 'chat.completion', choices: [{ ...choice, ...logprobs }], usage })
    }
  }

  async function stream(
    response: ServerResponse,
    body: ChatBody,
    tokens: readonly ModelToken[],
    { shell, usage }: { shell: object; usage: object },
  ): Promise<void> {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const write = (event: object) =>
      response.write(`data: ${JSON.stringify({ ...shell, object: 'chat.completion.chunk', ...event })}\n\n`)
    const breaksAt = Math.random() < behaviour.breakShare ? Math.floor(tokens.length / 2) : Infinity
    write({ choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] })
    // Several tokens at once keep the number of timers low.
    for (let at = 0; at < tokens.length && !response.destroyed; at += TOKENS_AT_ONCE) {
      const some = tokens.slice(at, at + TOKENS_AT_ONCE)
      if (at + TOKENS_AT_ONCE > breaksAt) return void response.destroy()
      const content = some.map(({ text }) => text).join('')
      const delta = { content: at === 0 ? content.trimStart() : content }
      const logprobs = body.logprobs === true ? { logprobs: { content: some.map(logprobOf) } } : {}
      write({ choices: [{ index: 0, delta, finish_reason: null, ...logprobs }] })
      await delay((some.length / behaviour.tokensPerSecond) * 1000)
    }
    write({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })
    if (body.stream_options?.include_usage === true) write({ choices: [], usage })
    response.end('data: [DONE]\n\n')
  }

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

const TOKENS_AT_ONCE = 8

const logprobOf = ({ text, logprob, top }: ModelToken) => ({ token: text, logprob, bytes: null, top_logprobs: top })

function textOfContent(content: unknown): string {
  if (typeof content === 'string') return content
  return Array.isArray(content) ? content.map(part => (part as { text?: string }).text ?? '').join('') : ''
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

async function textOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of request) pieces.push(piece as Buffer)
  return Buffer.concat(pieces).toString()
}
