import { expect, test } from 'vitest'
import { isTransient } from './is-transient.ts'

const withCode = (code: string) => Object.assign(new Error(code), { code })

test.each(['EPIPE', 'EBUSY', 'ECONNRESET', '57P01', '40001', '08006', '55P03', '42P01', '42883', '42501'])(
  '%s is transient',
  code => {
    expect(isTransient(withCode(code))).toBe(true)
  },
)

test.each(['23505', '22003', 'P0001', 'XX000', '42703'])('%s is permanent', code => {
  expect(isTransient(withCode(code))).toBe(false)
})
