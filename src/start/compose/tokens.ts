import { TokenCounter } from '../../wire/tokens/token-counter.ts'
import type { ComposeContext } from './compose-context.ts'

/** Creates the counter of long texts. Its thread starts with the first of them. */
export function createTokenCounter({ timeouts, started }: ComposeContext): TokenCounter {
  const counter = new TokenCounter({ timeoutMs: timeouts.measureTextMs })
  started.defer(() => counter.close())
  return counter
}
