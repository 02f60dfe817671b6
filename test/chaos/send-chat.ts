import { parseEventStream } from '../harness/event-stream.ts'
import { type ChaosCustomer, type ModelName, maxTokensOf, outputTokensOf, type Sent } from './customer.ts'
import type { GatewayProcess } from './gateway-process.ts'
import { textOf } from './model-server.ts'

export interface ChatOptions {
  readonly stream?: boolean
  readonly words?: number
  readonly gapMs?: number
  readonly model?: ModelName
}

/** Sends one chat request and records its outcome. Never rejects. */
export async function sendChat(
  node: GatewayProcess,
  customer: ChaosCustomer,
  options: ChatOptions = {},
): Promise<Sent> {
  const { stream = false, words = 5, gapMs = 0, model = 'chaos' } = options
  const tag = customer.sent.length + 1
  const sent: Sent = {
    tag,
    node: node.name,
    model,
    stream,
    requestId: null,
    ending: 'running',
    errorCode: null,
    retryAfterS: null,
    hasFullContent: false,
    endedAtMs: 0,
  }
  customer.sent.push(sent)
  const task = { tag, outputTokens: outputTokensOf(sent), customerId: customer.customerId, words, gapMs }
  try {
    const response = await fetch(`${node.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model,
        stream,
        max_tokens: maxTokensOf[model],
        messages: [{ role: 'user', content: textOf(task) }],
      }),
    })
    sent.requestId = response.headers.get('x-request-id')
    sent.retryAfterS = Number(response.headers.get('retry-after') ?? Number.NaN) || null
    sent.ending = 'cut'
    await read(response, sent)
  } catch (error) {
    if (sent.ending === 'running') sent.ending = isRefusedConnection(error) ? 'unsent' : 'unanswered'
  }
  sent.endedAtMs = performance.now()
  return sent
}

async function read(response: Response, sent: Sent): Promise<void> {
  if (response.status !== 200) {
    const body = (await response.json()) as { error?: { code?: string } }
    sent.errorCode = body.error?.code ?? `status ${response.status}`
    sent.ending = 'refused'
    return
  }
  if (!sent.stream) {
    await response.json()
    sent.ending = 'complete'
    return
  }
  let text = ''
  const decoder = new TextDecoder()
  for await (const bytes of response.body!) {
    text += decoder.decode(bytes, { stream: true })
    if (text.includes('"finish_reason":"stop"')) sent.hasFullContent = true
  }
  const { done, error } = parseEventStream(text)
  if (error !== null) {
    sent.errorCode = error.code
    sent.ending = 'failed'
  } else if (done) {
    sent.ending = 'complete'
  }
}

function isRefusedConnection(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause as { code?: string } | undefined) : undefined
  return cause?.code === 'ECONNREFUSED'
}
