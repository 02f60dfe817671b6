import { expect, test } from 'vitest'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import { BodyDelivery } from './upstream-exchange.ts'

const KIB = 1_024

/** A delivery, the pieces that its sink got, and a function that ends the pause of the sink. */
function deliver(pausesAfter: number) {
  const delivery = new BodyDelivery(() => {}, uncounted)
  const pieces: Buffer[] = []
  const pause = Promise.withResolvers<void>()
  const done = delivery.deliverTo(piece => {
    pieces.push(Buffer.from(piece))
    return pieces.length === pausesAfter ? pause.promise : undefined
  })
  return { delivery, pieces, resume: pause.resolve, done }
}

test('a long read is delivered in short pieces, and waits while the sink pauses', async () => {
  const { delivery, pieces, resume, done } = deliver(2)
  const read = Buffer.from(Array.from({ length: 60 * KIB + 1 }, (_, at) => at % 251))
  expect(delivery.add(read)).toBe(true)
  expect(pieces.map(({ length }) => length)).toEqual([8 * KIB, 8 * KIB])
  expect(delivery.queuedBytes).toBe(44 * KIB + 1)
  resume()
  delivery.end()
  await done
  expect(Math.max(...pieces.map(({ length }) => length))).toBe(8 * KIB)
  expect(Buffer.concat(pieces)).toEqual(read)
})

test('a sink that stops gets nothing of the rest of a read', async () => {
  const delivery = new BodyDelivery(() => {}, uncounted)
  let pieces = 0
  const done = delivery.deliverTo(() => {
    pieces++
    delivery.stop()
  })
  expect(delivery.add(Buffer.alloc(64 * KIB))).toBe(true)
  await done
  expect([pieces, delivery.queuedBytes]).toEqual([1, 0])
})
