import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestApp, type TestApp } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'

let gateway: TestApp
beforeAll(async () => {
  gateway = await startTestApp()
})
afterAll(() => gateway?.close())

test.each(['/v1/credits', '/v1/credits/transactions', '/v1/credits/transactions?cursor=bad'])(
  '%s without a valid key tells nothing',
  async path => {
    for (const headers of [{}, { authorization: 'Bearer sk-sy-nobody' }]) {
      const error = await readError(await fetch(gateway.url + path, { headers }))
      expect(error).toMatchObject({ status: 401, code: 'invalid_api_key', param: null })
    }
  },
)
