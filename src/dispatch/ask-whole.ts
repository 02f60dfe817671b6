import type { ChatCompletion } from '../domain/completion.ts'
import type { Envelope } from '../wire/envelope.ts'
import { normaliseCompletion } from '../wire/upstream-completion.ts'
import { rejectUnreadable } from './ask-stream.ts'
import { failureOfResponse } from './classify.ts'
import type { UpstreamAsk, UpstreamClient } from './upstream-client.ts'

/** Asks for a whole answer. Throws UpstreamFailure. */
export async function askWhole(
  upstream: UpstreamClient,
  ask: UpstreamAsk,
  envelope: Envelope,
  choices: number,
): Promise<ChatCompletion> {
  const exchange = await upstream.ask(ask)
  try {
    if (exchange.status !== 200) {
      throw failureOfResponse(exchange.status, exchange.headers, await exchange.errorText())
    }
    rejectUnreadable(exchange)
    return normaliseCompletion(await exchange.text(), envelope, choices)
  } finally {
    exchange.release()
  }
}
