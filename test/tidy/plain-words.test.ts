import { expect, test } from 'vitest'
import { adviceOn } from '../../scripts/plain-words.ts'

test('planted words are found on their lines', () => {
  const planted = [
    '// A server whose answer is late.',
    "const wish = 'Who is told?'",
    '// The operator who starts it, and a user',
    '// who stops it.',
    'const wishes2 = pricing.dearest',
  ]
  expect(adviceOn('src/planted.ts', planted.join('\n'))).toEqual([
    expect.stringMatching(/^src\/planted\.ts:1: "whose": write "with"/),
    expect.stringMatching(/^src\/planted\.ts:2: "wish": write "constraint"/),
    expect.stringMatching(/^src\/planted\.ts:2: "Who": write "a client that"/),
    expect.stringMatching(/^src\/planted\.ts:2: "told": write "reported"/),
  ])
})
