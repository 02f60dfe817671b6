import { expect, test } from 'vitest'
import { distinctTicks } from '../../console/src/charts/distinct-ticks.ts'

/** Ticks at equal distances from 0, as those of a linear scale. */
const ticksTo = (most: number) => (count: number) => Array.from({ length: count + 1 }, (_, at) => (most * at) / count)

test.each([1, 2, 3, 1_400])('no two ticks up to %d have the same label', most => {
  for (const wanted of [2, 3]) {
    const ticks = distinctTicks(ticksTo(most), wanted, value => `${Math.round(value)} ms`)
    expect(new Set(ticks.map(({ label }) => label)).size).toBe(ticks.length)
    expect(ticks.at(-1)).toEqual({ value: most, label: `${most} ms` })
  }
})
