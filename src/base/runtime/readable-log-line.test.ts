import { stripVTControlCharacters } from 'node:util'
import { expect, test } from 'vitest'
import { createLog } from './create-log.ts'
import { readableLogLine } from './readable-log-line.ts'

/** Logs with a real logger. Returns the text without the time. */
function logged(level: string, write: (log: ReturnType<typeof createLog>) => void, coloured = false): string {
  let text = ''
  const options = { coloured, withStacks: level === 'debug' }
  write(
    createLog({ level, format: 'json' }, () => false, {
      write: line => {
        text += readableLogLine(line, options)
      },
    }),
  )
  return text.replaceAll(/\d\d:\d\d:\d\d/g, 'hh:mm:ss')
}

test('a line has the time, the message and the fields, and its level unless it is info', () => {
  const lines = logged('info', log => {
    log.info('Server listening')
    log.warn({ worker: 2, kind: 'local', name: 'two words', list: ['a'], none: null }, 'something is odd')
  })
  expect(lines).toBe(
    'hh:mm:ss Server listening\nhh:mm:ss WARN something is odd  worker=2 kind=local name="two words" list=["a"] none=null\n',
  )
})

test('an error is one line, and has its stack only at the level debug', () => {
  const error = Object.assign(new Error('connect failed'), { code: 'ECONNREFUSED' })
  const write = (log: ReturnType<typeof createLog>) => log.error({ err: error }, 'a connection broke')
  const line = 'hh:mm:ss ERROR a connection broke  err="connect failed (ECONNREFUSED)"\n'
  expect(logged('info', write)).toBe(line)
  const withStack = logged('debug', write)
  expect(withStack.startsWith(`${line}    at `)).toBe(true)
})

test('control characters of other programs do not reach the terminal', () => {
  const text = logged('info', log => log.info({ name: 'a\u001b[2J\u009b1m' }, 'b\u001b]0;title\u0007\nc\u202e'))
  expect(text).toBe('hh:mm:ss b\\u{1b}]0;title\\u{7}\\u{a}c\\u{202e}  name=a\\u{1b}[2J\\u{9b}1m\n')
})

test('colours are added only when asked for', () => {
  const write = (log: ReturnType<typeof createLog>) => log.warn({ worker: 1 }, 'slow')
  const coloured = logged('info', write, true)
  expect(coloured).toContain('\u001b[33mWARN\u001b[39m')
  expect(stripVTControlCharacters(coloured)).toBe(logged('info', write))
})
