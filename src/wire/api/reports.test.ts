import { describe, expect, test } from 'vitest'
import { ApiError } from '../../base/domain/errors.ts'
import { daysQuery, readQuery, tokenUsageQuery } from './reports.ts'

describe('the query of a report', () => {
  test.each([
    [{}, { days: 30, interval: 'day' }],
    [{ days: '1' }, { days: 1, interval: 'day' }],
    [
      { days: '365', interval: 'month' },
      { days: 365, interval: 'month' },
    ],
    [
      { interval: 'hour', unknown: 'x' },
      { days: 30, interval: 'hour' },
    ],
  ])('%j means %j', (query, meaning) => expect(readQuery(tokenUsageQuery, query)).toEqual(meaning))

  test.each([
    '0',
    '366',
    '1000',
    '-1',
    '+5',
    '1e3',
    '3.0',
    '1.5',
    '0x10',
    ' 5',
    '5 ',
    '',
    '007',
    'NaN',
    'Infinity',
    'null',
    '٣',
    '9'.repeat(400),
    ['1', '2'],
    ['1'],
  ])('refuses days=%j and names it', days => {
    const error = refusal(() => readQuery(daysQuery, { days }))
    expect(error).toMatchObject({ code: 'invalid_value', param: 'days' })
    expect(error.message).toMatch(/^days must be a whole number from 1 to 365 /)
    expect(error.message.length).toBeLessThan(140)
  })

  test.each(['', 'Day', 'days', 'minute', 'year', ' day', ['day', 'hour']])(
    'refuses interval=%j and names it',
    interval => {
      const error = refusal(() => readQuery(tokenUsageQuery, { interval }))
      expect(error).toMatchObject({ code: 'invalid_value', param: 'interval' })
      expect(error.message).toMatch(/^interval must be one of hour, day, week, month\. /)
    },
  )

  test('quotes the value in the message', () => {
    expect(refusal(() => readQuery(daysQuery, { days: '1e3' })).message).toBe(
      'days must be a whole number from 1 to 365 in plain digits, such as 30. "1e3" was sent.',
    )
    expect(refusal(() => readQuery(daysQuery, { days: ['1', '2'] })).message).toContain(
      'It was sent 2 times; send it once.',
    )
  })
})

function refusal(work: () => unknown): ApiError {
  try {
    work()
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
  throw new Error('The query was accepted.')
}
