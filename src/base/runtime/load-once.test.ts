import { expect, test } from 'vitest'
import { loadOnce } from './load-once.ts'

// Went wrong: Stripe, nodemailer and the list of common passwords kept the rejected promise of their first load (issue 35).
test('loads once, and again after a failure', async () => {
  const results = [
    Promise.reject(new Error('too many open files')),
    Promise.resolve('first'),
    Promise.resolve('second'),
  ]
  const load = loadOnce(() => results.shift()!)
  await expect(Promise.all([load(), load()])).rejects.toThrow('too many open files')
  expect(await Promise.all([load(), load()])).toEqual(['first', 'first'])
  expect(await load()).toBe('first')
})
