import { setTimeout as delay } from 'node:timers/promises'
import { clientWires } from '../harness/client-wires.ts'
import { type ChaosCustomer, maxTokensOf, type Path, plainChat, type Sent, tokensOf } from './customer.ts'
import type { GatewayProcess } from './gateway-process.ts'
import { textOf, wordOf } from './model-server.ts'

export interface RequestOptions {
  /** The endpoint and the model. Default: `chaos` by chat. */
  readonly path?: Path
  readonly stream?: boolean
  readonly words?: number
  readonly gapMs?: number
  /** The client leaves: at the second word of a stream, or while it waits for a whole answer. */
  readonly leaves?: boolean
}

/** Sends one request and records its outcome. Never rejects. */
export async function sendRequest(
  node: GatewayProcess,
  customer: ChaosCustomer,
  options: RequestOptions = {},
): Promise<Sent> {
  const { path = plainChat, stream = false, words = 5, gapMs = 0, leaves = false } = options
  const { client, model } = path
  const tag = customer.sent.length + 1
  const sent: Sent = {
    tag,
    node: node.name,
    client,
    model,
    stream,
    words,
    requestId: null,
    ending: 'running',
    errorCode: null,
    malformed: null,
    retryAfterS: null,
    hasFullContent: false,
    endedAtMs: 0,
  }
  customer.sent.push(sent)
  const text = textOf({ tag, tokens: tokensOf(sent), customerId: customer.customerId, words, gapMs })
  const asked = { model, key: customer.key, text, maxTokens: maxTokensOf(model), stream }
  const request = clientWires[client].request(asked)
  const left = new AbortController()
  if (leaves && !stream) void delay(gapMs / 2 + 1).then(() => left.abort())
  try {
    const response = await fetch(`${node.url}${request.path}`, {
      method: 'POST',
      headers: { ...request.headers, 'content-type': 'application/json' },
      body: JSON.stringify(request.body),
      signal: left.signal,
    })
    sent.requestId = response.headers.get('x-request-id')
    sent.retryAfterS = Number(response.headers.get('retry-after') ?? Number.NaN) || null
    sent.ending = 'cut'
    await read(response, sent, leaves ? left : null)
  } catch (error) {
    if (left.signal.aborted) sent.ending = 'left'
    else if (sent.ending === 'running') sent.ending = isRefusedConnection(error) ? 'unsent' : 'unanswered'
  }
  sent.endedAtMs = performance.now()
  return sent
}

async function read(response: Response, sent: Sent, left: AbortController | null): Promise<void> {
  const wire = clientWires[sent.client]
  if (response.status !== 200) {
    const body = await response.text()
    const code = wire.errorCode(JSON.parse(body))
    if (code === undefined) sent.malformed = `no error of ${sent.client}: ${response.status} ${body}`
    sent.errorCode = code ?? `status ${response.status}`
    sent.ending = 'refused'
    return
  }
  if (!sent.stream) {
    const body = await response.json()
    if (!wire.isAnswer(body)) sent.malformed = `no answer of ${sent.client}: ${JSON.stringify(body)}`
    sent.ending = 'complete'
    return
  }
  let text = ''
  const decoder = new TextDecoder()
  const lastWord = sent.client === 'chat' ? '"finish_reason":"stop"' : wordOf(sent.words - 1)
  for await (const bytes of response.body!) {
    text += decoder.decode(bytes, { stream: true })
    if (text.includes(lastWord)) sent.hasFullContent = true
    if (text.includes(wordOf(1))) left?.abort()
  }
  try {
    const { isComplete, errorCode } = wire.readStream(text)
    sent.errorCode = errorCode
    if (errorCode !== null) sent.ending = 'failed'
    else if (isComplete) sent.ending = 'complete'
  } catch (error) {
    sent.malformed = `no stream of ${sent.client}: ${(error as Error).message}: ${text}`
  }
}

function isRefusedConnection(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause as { code?: string } | undefined) : undefined
  return cause?.code === 'ECONNREFUSED'
}
