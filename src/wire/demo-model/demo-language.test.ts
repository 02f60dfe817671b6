import { expect, test } from 'vitest'
import { textPieces } from './demo-language.ts'

test('encodes a long text only as far as it is read', () => {
  let slices = 0
  const text = Object.assign(new String('The signal box is closed. '.repeat(1_000)), {
    slice(start: number, end?: number) {
      slices++
      return String.prototype.slice.call(this, start, end)
    },
  }) as unknown as string
  const pieces = textPieces(text)
  expect(pieces.next().value).toMatchObject({ text: 'The' })
  expect(slices).toBe(1)
})

test('keeps characters complete when two texts are read in turns', () => {
  const [one, other] = ['🚂'.repeat(3), 'ꙮ'.repeat(3)].map(text => textPieces(text))
  let [first, second] = ['', '']
  for (let left = true; left; ) {
    const [a, b] = [one!.next(), other!.next()]
    first += a.value?.text ?? ''
    second += b.value?.text ?? ''
    left = !(a.done && b.done)
  }
  expect([first, second]).toEqual(['🚂'.repeat(3), 'ꙮ'.repeat(3)])
})
