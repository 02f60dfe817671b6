import { expect, test } from 'vitest'
import { ApiError } from '../../base/domain/errors.ts'
import { mintApiKey } from './api-key.ts'
import { credentialOf } from './authenticator.ts'

const key = mintApiKey()
const other = mintApiKey()

test.each([
  ['Authorization', `Bearer ${key}`],
  ['authorization', `bearer ${key}`],
  ['AUTHORIZATION', `BEARER   ${key}  `],
  ['x-api-key', key],
  ['X-Api-Key', ` ${key}`],
  ['api-key', key],
])('%s: %s is accepted', (name, value) => {
  expect(credentialOf(['Host', 'a', name, value, 'Accept', '*/*'])).toBe(key)
})

test('Authorization overrides the aliases', () => {
  expect(credentialOf(['x-api-key', other, 'Authorization', `Bearer ${key}`])).toBe(key)
})

test.each([
  { what: 'nothing', headers: ['Host', 'a'] },
  { what: 'two Authorization headers', headers: ['Authorization', `Bearer ${key}`, 'authorization', `Bearer ${key}`] },
  { what: 'two aliases', headers: ['x-api-key', key, 'api-key', key] },
  { what: 'another scheme', headers: ['Authorization', `Basic ${key}`] },
  { what: 'a bad Authorization next to a good alias', headers: ['Authorization', 'Basic abc', 'x-api-key', key] },
  { what: 'an empty token', headers: ['Authorization', 'Bearer '] },
  { what: 'an empty header', headers: ['Authorization', ''] },
  { what: 'the key without a scheme', headers: ['Authorization', key] },
  { what: 'two tokens', headers: ['Authorization', `Bearer ${key}, Bearer ${other}`] },
  { what: 'a no-break space after the key', headers: ['Authorization', `Bearer ${key}\xa0`] },
  { what: 'a no-break space after an alias', headers: ['x-api-key', `${key}\xa0`] },
  { what: 'a letter beyond ASCII in the key', headers: ['Authorization', `Bearer ${key}\xe9`] },
  { what: 'SQL', headers: ['Authorization', "Bearer ' OR 1=1--"] },
])('$what is refused with the same message', ({ headers }) => {
  const refusal = (() => {
    try {
      return credentialOf(headers)
    } catch (error) {
      return error
    }
  })()
  expect(refusal).toBeInstanceOf(ApiError)
  expect(refusal).toMatchObject({
    code: 'invalid_api_key',
    param: null,
    message: new ApiError('invalid_api_key').message,
  })
})
