import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ByteQueue } from './byte-queue.ts'

it('returns bytes in order for any sizes of pieces, and holds copies only', () => {
  const pieces = fc.uint8Array({ maxLength: 40 }).map(bytes => Buffer.from(bytes))
  fc.assert(
    fc.property(fc.array(fc.oneof(pieces, fc.integer({ min: 1, max: 50 }))), steps => {
      const gathered = new ByteQueue()
      const added: Buffer[] = []
      const taken: Buffer[] = []
      for (const step of steps) {
        if (typeof step === 'number') {
          const piece = gathered.take(step)
          expect(piece.length).toBeLessThanOrEqual(step)
          taken.push(piece)
        } else {
          added.push(Buffer.from(step))
          gathered.add(step)
          step.fill('?')
        }
        const [all, gone] = [Buffer.concat(added), Buffer.concat(taken)]
        expect(gathered.length).toBe(all.length - gone.length)
        expect(gathered.toString()).toBe(all.subarray(gone.length).toString())
        expect(gone).toEqual(all.subarray(0, gone.length))
      }
    }),
  )
})
