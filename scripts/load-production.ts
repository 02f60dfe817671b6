// node scripts/load-production.ts KEY NAME ADDRESS...: sends requests to https://NAME/, as clients do that reach it at several
// addresses, until SIGTERM. Then prints how many were sent, how many failed and why. Used by try-production.sh.
import { setInterval } from 'node:timers/promises'
import { Agent, fetch } from 'undici'

const EVERY_MS = 50
const ANSWER_MS_MAX = 60_000

const [key, name, ...addresses] = process.argv.slice(2)
if (key === undefined || name === undefined || addresses.length === 0)
  throw new Error('Name a key, a name and addresses.')

const dispatcher = new Agent({
  connect: {
    // The certificate of the page is its own.
    rejectUnauthorized: false,
    lookup: (_name, _options, done) =>
      done(
        null,
        rotated(addresses).map(address => ({ address, family: 4 })),
      ),
    // Tries the next address when one does not answer.
    autoSelectFamily: true,
    timeout: 2_000,
  },
})

const failures = new Map<string, number>()
const running = new Set<Promise<void>>()
let sent = 0
let slowestMs = 0
const stopping = new AbortController()
process.once('SIGTERM', () => stopping.abort())

console.log('sending')
try {
  for await (const _ of setInterval(EVERY_MS, undefined, { signal: stopping.signal })) {
    const request = ask().finally(() => running.delete(request))
    running.add(request)
  }
} catch (error) {
  if (!stopping.signal.aborted) throw error
}
await Promise.all(running)
const failed = failures.values().reduce((sum, count) => sum + count, 0)
const reasons = [...failures].map(([reason, count]) => `${count} x ${reason}`)
console.log([`${sent} requests, ${failed} failed, slowest ${slowestMs.toFixed(0)} ms`, ...reasons].join('; '))
await dispatcher.close()

async function ask(): Promise<void> {
  sent++
  const startMs = performance.now()
  try {
    const response = await fetch(`https://${name}/v1/chat/completions`, {
      dispatcher,
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'demo', max_tokens: 20, messages: [{ role: 'user', content: 'Hello!' }] }),
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    })
    const text = await response.text()
    if (response.ok) slowestMs = Math.max(slowestMs, performance.now() - startMs)
    else note(`status ${response.status} ${/"code":"(\w+)"/.exec(text)?.[1] ?? ''}`)
  } catch (error) {
    const { cause } = error as { cause?: { code?: string; message?: string } }
    note(cause?.code ?? cause?.message ?? String(error))
  }
}

function note(reason: string): void {
  failures.set(reason, (failures.get(reason) ?? 0) + 1)
}

function rotated<T>(items: readonly T[]): T[] {
  const from = Math.floor(Math.random() * items.length)
  return [...items.slice(from), ...items.slice(0, from)]
}
