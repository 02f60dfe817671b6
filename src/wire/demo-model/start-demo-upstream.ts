import { createHash, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { http } from '../../base/runtime/node-http.ts'
import { type Clock, systemClock } from '../../base/runtime/scheduler.ts'
import { answerEmbeddings, answerRerank, listInputs, tokensOfInputs } from './demo-data.ts'
import { loadDemoLanguage } from './demo-language.ts'
import { type ChatRequest, countPrompt, DemoError, parseChatRequest } from './demo-request.ts'
import { planReplies } from './plan-replies.ts'
import { type Speed, sendAnswer } from './send-answer.ts'

export interface DemoUpstream {
  /** Ends with `/v1`. `/chat/completions` is appended. */
  readonly baseUrl: string
  /** Stops listening and closes all connections. */
  close(): Promise<void>
}

/**
 * Starts the demo upstream on a free loopback port: POST /v1/chat/completions, /v1/completions, /v1/embeddings and
 * /v1/rerank. The gateway is its only client, has checked the requests, and reaches it as any other upstream. Its
 * token counts are exact, except for long prompts, which it estimates.
 * @param options.apiKey bearer token of every request, so that only this process can use
 * the server
 */
export async function startDemoUpstream(options: Speed & { apiKey: string; clock?: Clock }): Promise<DemoUpstream> {
  const language = loadDemoLanguage()
  const clock = options.clock ?? systemClock
  const keyDigest = digest(`Bearer ${options.apiKey}`)

  // biome-ignore lint/suspicious/noExplicitAny: the gateway has checked the bodies
  const tasks: Record<string, (body: any, response: ServerResponse) => Promise<unknown>> = {
    async '/v1/chat/completions'(body, response) {
      const request = parseChatRequest(body)
      await send([request], countPrompt(request), false, response)
    },
    /** Each prompt is answered like a message. */
    async '/v1/completions'({ prompt, suffix, logprobs: _, ...fields }, response) {
      const inputs = listInputs(prompt)
      const requests = inputs.map(input => {
        const content = typeof input === 'string' ? `${input}${suffix ?? ''}` : input.join(' ')
        return parseChatRequest({ ...fields, messages: [{ role: 'user', content }] })
      })
      await send(requests, tokensOfInputs([...inputs, ...inputs.map(() => suffix ?? '')]), true, response)
    },
    '/v1/embeddings': async (body, response) => sendJson(response, 200, await answerEmbeddings(body)),
    '/v1/rerank': async (body, response) => sendJson(response, 200, await answerRerank(body)),
  }

  async function send(
    requests: readonly ChatRequest[],
    promptTokens: number,
    isText: boolean,
    response: ServerResponse,
  ): Promise<void> {
    const [request] = requests
    const replies = await planReplies(language, requests)
    if (request) await sendAnswer({ request, isText, promptTokens, replies, language, clock, speed: options }, response)
  }

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!timingSafeEqual(digest(request.headers.authorization ?? ''), keyDigest)) {
      throw new DemoError(401, 'Incorrect API key for the demo upstream.')
    }
    const serve = tasks[request.url ?? '']
    if (serve === undefined) throw new DemoError(404, `No such path: ${request.url}.`)
    await serve(await json(request), response)
  }

  const server = http.createServer((request, response) => {
    respond(request, response).catch(error => sendError(response, error))
  })
  // Longer than clients keep an idle connection, so that the server never closes one about to be reused.
  server.keepAliveTimeout = 120_000
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    async close() {
      if (!server.listening) return
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

function sendJson(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(body)
}

function sendError(response: ServerResponse, error: unknown): void {
  // The client is gone, or would take what it has for a complete answer.
  if (response.destroyed || response.headersSent) return void response.destroy()
  const { status, message, param } =
    error instanceof DemoError ? error : new DemoError(500, 'The demo upstream failed.')
  const type = status >= 500 ? 'server_error' : 'invalid_request_error'
  sendJson(response, status, JSON.stringify({ error: { message, type, param, code: null } }))
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
