import { expect, test } from 'vitest'
import { readRequestId } from './request-id.ts'

const id = '00000000-0000-7000-8000-00000000000a'

test.each(['', 'chatcmpl-', 'cmpl-', 'rerank-', 'resp_', 'msg_'])(
  'the id of an answer that begins with "%s" is that of its request',
  prefix => {
    expect(readRequestId(`${prefix}${id}`)).toBe(id)
    expect(readRequestId(`${prefix}${id.toUpperCase()}`)).toBe(id)
  },
)

test.each(['', 'batch_', 'cmpl-cmpl-'])('other texts that begin with "%s" are none', prefix => {
  expect(readRequestId(`${prefix}${prefix === '' ? 'x' : id}`)).toBeUndefined()
})
