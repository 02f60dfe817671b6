import { expect, test } from 'vitest'
import { hostNameProblem } from './host-name.ts'

const problemOf = (hostname: string, allowUnderscores = false) => hostNameProblem(hostname, { allowUnderscores })
const long = 'a'.repeat(63)

test.each(['a.b', 'xn--bcher-kva.example', '1.a-b.c', '127.0.0.1', '[::1]', 'localhost', 'a.b.', `${long}.b`])(
  'a name server may know %s',
  hostname => expect(problemOf(hostname)).toBeUndefined(),
)

test.each([
  'a..b',
  '.a',
  '-a.com',
  'a-.com',
  '-a.com-',
  'a_b.com',
  `${long}a.b`,
  'a!b.com',
  '',
  `${`${long}.`.repeat(4)}b`,
])('no name server knows %s', hostname => expect(problemOf(hostname)).toMatch(/^its host name /))

test('names of containers may have underscores', () => {
  expect(problemOf('model_server', true)).toBeUndefined()
  expect(problemOf('model_server')).toContain('"model_server"')
})
