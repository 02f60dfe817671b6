import fc from 'fast-check'
import { expect, it, test } from 'vitest'
import { ByteBudget, ByteQueue, TextBuffer, uncounted } from './counted-memory.ts'

test('new requests may fill three quarters, running ones the rest', () => {
  const budget = new ByteBudget(100)
  expect(budget.freeForNewBytes).toBe(75)
  expect(budget.take(75)).toBe(true)
  expect(budget.hasRoomForNew).toBe(false)
  expect(budget.freeForNewBytes).toBe(0)
  expect(budget.take(25)).toBe(true)
  expect(budget.take(1)).toBe(false)
  expect(budget.usedBytes).toBe(100)
  budget.give(26)
  expect(budget.hasRoomForNew).toBe(true)
  expect(budget.freeForNewBytes).toBe(1)
})

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

test('joins pieces into one text, even when a character is split', () => {
  const buffer = new TextBuffer(uncounted)
  expect(String(buffer)).toBe('')
  let text = ''
  for (let n = 0; n < 500; n++) {
    for (const piece of [`${n} `, 'ä', '\ud834', '\udd1e', '']) {
      buffer.append(piece)
      text += piece
    }
  }
  expect(buffer.length).toBe(text.length)
  expect(String(buffer)).toBe(text)
  expect(buffer.slice(100, 200)).toBe(text.slice(100, 200))
  expect(buffer.slice(text.length - 5, text.length + 5)).toBe(text.slice(-5))
})
