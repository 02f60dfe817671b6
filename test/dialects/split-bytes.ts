import { SseDecoder, type SseEvent } from '../../src/wire/dialects/sse/sse-decoder.ts'

const unlimited = { take: () => true, give: () => {} }

/** Decodes a stream that arrives in pieces, cut at these positions. */
export function decodeSse(stream: string, cuts: readonly number[] = []): SseEvent[] {
  const bytes = Buffer.from(stream)
  const decoder = new SseDecoder(2 ** 24, unlimited as never)
  const events: SseEvent[] = []
  let start = 0
  for (const cut of [...cuts].map(each => each % (bytes.length + 1)).sort((a, b) => a - b)) {
    events.push(...decoder.push(bytes.subarray(start, cut)))
    start = cut
  }
  return [...events, ...decoder.push(bytes.subarray(start)), ...decoder.end()]
}
