import { expect, test } from 'vitest'
import { classifyResponse } from './classify-response.ts'

const head = { status: 429, contentType: 'application/json', contentEncoding: '', retryAfter: '', retryAfterMs: '' }
const retryInfo = (retryDelay: unknown) => ({
  error: {
    code: 429,
    message: 'Quota exceeded.',
    status: 'RESOURCE_EXHAUSTED',
    details: [
      { '@type': 'type.googleapis.com/google.rpc.QuotaFailure' },
      { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay },
    ],
  },
})

test.each([
  ['whole seconds', retryInfo('34s'), 34],
  ['a fraction, rounded up', retryInfo('34.074824224s'), 35],
  ['in a list, as without alt=sse', [retryInfo('7s')], 7],
  ['at most a day', retryInfo('999999999s'), 86_400],
  ['another unit', retryInfo('3m'), undefined],
  ['a number', retryInfo(34), undefined],
  ['none', { error: { message: 'x', details: [null, 'x'] } }, undefined],
  ['details that are no list', { error: { message: 'x', details: { 0: {} } } }, undefined],
])("Gemini's wait: %s", (_, body, seconds) => {
  expect(classifyResponse(head, JSON.stringify(body)).retryAfterS).toBe(seconds)
})

test('a header comes before it', () => {
  expect(classifyResponse({ ...head, retryAfter: '3' }, JSON.stringify(retryInfo('34s'))).retryAfterS).toBe(3)
})
