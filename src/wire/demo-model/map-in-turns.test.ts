import { expect, test } from 'vitest'
import { mapInTurns } from './map-in-turns.ts'

test('other work gets turns between long items', async () => {
  const steps: string[] = []
  setImmediate(() => steps.push('other'))
  const lengths = await mapInTurns(
    ['a'.repeat(70_000), 'b'],
    text => text.length,
    text => {
      steps.push(text.slice(0, 1))
      return text.length
    },
  )
  expect(lengths).toEqual([70_000, 1])
  expect(steps).toEqual(['a', 'other', 'b'])
})
