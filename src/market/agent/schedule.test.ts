import { expect, it } from 'vitest'
import { isWithin, readHours } from './schedule.ts'

const at = (hour: number, minute = 0) => new Date(2026, 0, 1, hour, minute)

it.each([
  ['22:00-07:00', [21, 59], false],
  ['22:00-07:00', [22, 0], true],
  ['22:00-07:00', [6, 59], true],
  ['22:00-07:00', [7, 0], false],
  ['9:30-17:00', [9, 30], true],
  ['9:30-17:00', [17, 0], false],
  ['00:00-24:00', [23, 59], true],
] as const)('%s at %j: %s', (text, [hour, minute], expected) => {
  expect(isWithin([readHours(text)!], at(hour, minute))).toBe(expected)
})

it('without hours, every time is within them', () => {
  expect(isWithin([], at(3))).toBe(true)
})

it.each(['', '22:00', '22-07', '25:00-07:00', '22:60-07:00', '07:00-07:00', '24:00-07:00', '22:00-07:00 '])(
  '%j is refused',
  text => {
    expect(readHours(text)).toBeUndefined()
  },
)
