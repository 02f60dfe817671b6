import { expect, test } from 'vitest'
import { readError } from '../harness/event-stream.ts'
import { useTestApp } from '../harness/use-test-app.ts'

const gateway = useTestApp()

test.each(['/v1/credits', '/v1/credits/transactions', '/v1/credits/transactions?cursor=bad'])(
  '%s without a valid key is refused',
  async path => {
    for (const headers of [{}, { authorization: 'Bearer sk-sy-wrong' }]) {
      const error = await readError(await fetch(gateway.url + path, { headers }))
      expect(error).toMatchObject({ status: 401, code: 'invalid_api_key', param: null })
    }
  },
)
