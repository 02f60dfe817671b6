import { expect, test } from 'vitest'
import { sayPieces } from './demo-language.ts'

test('a long text is taken apart as far as somebody reads it', () => {
  let slices = 0
  const text = Object.assign(new String('The signal box is closed. '.repeat(1_000)), {
    slice(start: number, end?: number) {
      slices++
      return String.prototype.slice.call(this, start, end)
    },
  }) as unknown as string
  const pieces = sayPieces(text)
  expect(pieces.next().value).toMatchObject({ text: 'The' })
  expect(slices).toBe(1)
})

test('two texts that are read in turns keep their characters whole', () => {
  const [one, other] = ['🚂'.repeat(3), 'ꙮ'.repeat(3)].map(text => sayPieces(text))
  let [first, second] = ['', '']
  for (let left = true; left; ) {
    const [a, b] = [one!.next(), other!.next()]
    first += a.value?.text ?? ''
    second += b.value?.text ?? ''
    left = !(a.done && b.done)
  }
  expect([first, second]).toEqual(['🚂'.repeat(3), 'ꙮ'.repeat(3)])
})
