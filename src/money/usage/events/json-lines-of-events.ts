import type { UsageEvent } from './usage-event-columns.ts'

/** Yields one JSON object per line: whole numbers without a fraction, times as ISO 8601 in UTC. */
export async function* jsonLinesOfEvents(pages: AsyncIterable<readonly UsageEvent[]>): AsyncGenerator<string> {
  for await (const page of pages) yield page.map(event => `${JSON.stringify(event, exactNumber)}\n`).join('')
}

/** Exact: `readUsageEvent` takes no number beyond 2^53. */
function exactNumber(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? Number(value) : value
}
