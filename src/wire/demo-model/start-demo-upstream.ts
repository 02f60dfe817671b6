import { createHash, randomUUID, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { http } from '../../base/runtime/node-http.ts'
import { type Clock, systemClock } from '../../base/runtime/scheduler.ts'
import { type Answer, answerInChunks, answerWhole } from './answer-chat.ts'
import { answerEmbeddings } from './answer-embeddings.ts'
import { answerRerank } from './answer-rerank.ts'
import { parseChatRequest } from './chat-request.ts'
import { countPrompt } from './count-prompt.ts'
import { DemoError } from './demo-error.ts'
import { loadDemoLanguage } from './demo-language.ts'
import { demoModel, requireDemoModel } from './demo-model.ts'
import type { Speed } from './pace.ts'
import { planCompletion } from './plan-completion.ts'
import { planReply } from './plan-reply.ts'

export interface DemoUpstream {
  /** Ends with `/v1`. `/chat/completions` is appended. */
  readonly baseUrl: string
  /** Stops listening and closes all connections. */
  close(): Promise<void>
}

/**
 * Starts the demo upstream on a free loopback port: POST /v1/chat/completions, /v1/completions, /v1/embeddings and
 * /v1/rerank. The gateway is its only client, and reaches it as any other upstream. Its
 * token counts are exact, except for long prompts, which it estimates.
 * @param options.apiKey bearer token of every request, so that only this process can use
 * the server
 * @param options.seed added to the seed of each request
 */
export async function startDemoUpstream(
  options: Speed & { apiKey: string; seed?: number; clock?: Clock },
): Promise<DemoUpstream> {
  const language = loadDemoLanguage()
  const clock = options.clock ?? systemClock
  const keyDigest = digest(`Bearer ${options.apiKey}`)

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '/').split('?', 1)[0]
    if (!timingSafeEqual(digest(request.headers.authorization ?? ''), keyDigest)) {
      throw new DemoError(401, 'Incorrect API key for the demo upstream.', { code: 'invalid_api_key' })
    }
    const serve = request.method === 'POST' && path !== undefined ? tasks[path] : undefined
    if (serve === undefined) throw new DemoError(404, `No such path: ${path}.`, { code: 'not_found' })
    await serve(await readJson(request), response)
  }

  const tasks: Record<string, (body: unknown, response: ServerResponse) => void | Promise<void>> = {
    '/v1/chat/completions': chat,
    '/v1/completions': complete,
    '/v1/embeddings': async (body, response) => sendText(response, await answerEmbeddings(body)),
    '/v1/rerank': async (body, response) => sendJson(response, await answerRerank(body)),
  }

  async function chat(body: unknown, response: ServerResponse): Promise<void> {
    const parsed = parseChatRequest(body)
    const chatRequest = { ...parsed, seed: parsed.seed + (options.seed ?? 0) }
    requireDemoModel(chatRequest.model)
    const promptTokens = countPrompt({ ...chatRequest, tools: (body as { tools?: unknown }).tools })
    requireContext(promptTokens, 'messages')
    await send({ request: chatRequest, promptTokens, replies: planReply(language, chatRequest) }, response)
  }

  async function complete(body: unknown, response: ServerResponse): Promise<void> {
    const plan = planCompletion(language, body, options.seed ?? 0)
    requireDemoModel(plan.request.model)
    requireContext(plan.promptTokens, 'prompt')
    await send({ ...plan, isText: true }, response)
  }

  function send(
    plan: Pick<Answer, 'request' | 'promptTokens' | 'replies' | 'isText'>,
    response: ServerResponse,
  ): Promise<void> {
    const created = Math.floor(clock.epochMs() / 1_000)
    const head = { id: `${plan.isText ? 'cmpl' : 'chatcmpl'}-demo-${randomUUID()}`, created, model: demoModel.id }
    const answer = { ...plan, head, language, clock, speed: options }
    return plan.request.stream ? answerInChunks(answer, response) : answerWhole(answer, response)
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

/** The gateway accepts bodies of up to 16 MiB and adds a few fields. */
const BODY_BYTES_MAX = 17 * 1024 * 1024

async function readJson(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of request) {
    bytes += part.length
    // Discard the rest instead of closing the connection: a client that is still sending would not read the
    // error.
    if (bytes <= BODY_BYTES_MAX) parts.push(part)
  }
  if (bytes > BODY_BYTES_MAX) throw new DemoError(413, 'The body is too large.', { code: 'request_too_large' })
  try {
    return JSON.parse(Buffer.concat(parts).toString('utf8'))
  } catch {
    throw new DemoError(400, 'The body is not valid JSON.', { code: 'invalid_json' })
  }
}

function requireContext(promptTokens: number, param: string): void {
  if (promptTokens <= demoModel.contextTokens) return
  throw new DemoError(400, `The demo's context window is ${demoModel.contextTokens} tokens. Shorten ${param}.`, {
    param,
    code: 'context_length_exceeded',
  })
}

function sendJson(response: ServerResponse, body: unknown): void {
  sendText(response, JSON.stringify(body))
}

function sendText(response: ServerResponse, json: string): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(json)
}

function sendError(response: ServerResponse, error: unknown): void {
  // After the first chunk the status has been sent. End with an error chunk and no [DONE], as OpenAI's clients
  // expect.
  const refusal = error instanceof DemoError ? error : new DemoError(500, 'The demo upstream failed.')
  if (response.destroyed) return
  if (response.headersSent) {
    response.end(`data: ${refusal.body()}\n\n`)
    return
  }
  response.writeHead(refusal.status, { 'content-type': 'application/json' }).end(refusal.body())
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
