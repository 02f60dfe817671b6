import { afterEach, expect, test } from 'vitest'
import { measureText } from './measure-text.ts'
import { TokenCounter } from './token-counter.ts'

let counter: TokenCounter
afterEach(() => counter.close())

const long = 'The signalman looks at the river. '.repeat(1_000)
/** Takes the thread several seconds. */
const slow = '漢字かな交じり文'.repeat(1_000_000)

test('measures texts of several customers on its thread', async () => {
  counter = new TokenCounter({ timeoutMs: 60_000 })
  const thai = 'การประมวลผลภาษาธรรมชาติ'.repeat(2_000)
  const lengths = await Promise.all([counter.measure(long, 'ada'), counter.measure(thai, 'bob')])
  expect(lengths).toEqual([measureText(long), measureText(thai)])
})

test('a text that takes too long delays no other, and ends at the timeout', async () => {
  counter = new TokenCounter({ timeoutMs: 20_000 })
  const first = counter.measure(slow, 'ada')
  expect(await counter.measure(long, 'bob')).toEqual(measureText(long))
  await counter.close()
  expect(await first).toBe(null)

  counter = new TokenCounter({ timeoutMs: 1 })
  expect(await counter.measure(slow, 'ada')).toBe(null)
})

test('one customer fills only its share of the queue, and the queue is bounded', async () => {
  counter = new TokenCounter({ timeoutMs: 60_000 })
  const answered: string[] = []
  const measure = (customerId: string, text = slow.slice(0, 1_000_000)) =>
    counter.measure(text, customerId).then(length => {
      answered.push(length === null ? `${customerId} refused` : customerId)
    })
  const waiting = Array.from({ length: 6 }, () => measure('ada'))
  await Promise.race(waiting)
  expect(answered).toEqual(['ada refused', 'ada refused'])
  await measure('bob', slow)
  expect(answered).toEqual(['ada refused', 'ada refused', 'bob refused'])
  await measure('bob', long)
  expect(answered.at(-1)).toBe('bob')
  await counter.close()
  await Promise.all(waiting)
})

test('a closed counter measures nothing', async () => {
  counter = new TokenCounter()
  await counter.close()
  expect(await counter.measure(long, 'ada')).toBe(null)
})
