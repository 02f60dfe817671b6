import { expect, test } from 'vitest'
import { markdownWithMaths } from '../../console/src/features/playground/markdown-with-maths.ts'

test.each([
  ['dollars', 'so $x^2$ is', 'so $$x^2$$ is'],
  ['brackets of a line', String.raw`so \(x\) is`, 'so $$x$$ is'],
  ['brackets of a block', String.raw`\[ x \]`, String.raw`$$\displaystyle x$$`],
  ['double dollars', '$$ x $$', String.raw`$$\displaystyle x$$`],
  ['a formula of several lines in a list', '- a:\n  $$\n  x\n  + y\n  $$', '- a:\n  $$\\displaystyle x + y$$'],
])('a formula in %s', (_name, answer, markdown) => {
  expect(markdownWithMaths(answer)).toEqual({ markdown, hasMaths: true })
})

test.each([
  ['prices', 'It costs $5, at most $10.'],
  ['two prices without a blank', 'From $5-$10 on'],
  ['a price in the national form', 'US$5 and US$6'],
  ['variables of a shell', 'Set $HOME and $PATH.'],
  ['an escaped dollar', String.raw`\$x\$`],
  ['code', 'Use `$x$` and ``a ` $y$``.'],
  ['a block of code', '```sh\necho $A$ $$\n```\nend'],
  ['a block of code that goes on', 'See\n\n~~~\n$x$'],
  ['a line break of TeX', String.raw`a \\[2pt] b \]`],
  ['an open formula', String.raw`so \( x`],
])('no formula in %s', (_name, answer) => {
  expect(markdownWithMaths(answer)).toEqual({ markdown: answer, hasMaths: false })
})

test('formulas behind code are found', () => {
  expect(markdownWithMaths('`a` $x$\n```\n$b$\n```\n$y$').markdown).toBe('`a` $$x$$\n```\n$b$\n```\n$$y$$')
})

test.each([
  ['a formula with a line break of TeX', String.raw`\[a \\[2pt] b\]`, String.raw`$$\displaystyle a \\[2pt] b$$`],
  ['an open formula before another', String.raw`\[ a \[b\]`, String.raw`\[ a $$\displaystyle b$$`],
])('%s', (_name, answer, markdown) => {
  expect(markdownWithMaths(answer).markdown).toBe(markdown)
})

// In quadratic time, each of these takes minutes: more than a test may.
test.each([String.raw`\[`, String.raw`\(`, String.raw`\[\(`, '$a ', '$$$ ', '`a ', '\n``` '])(
  'thousands of %j without an end do not block the page',
  opening => {
    const answer = `x${opening.repeat(200_000)}`
    expect(markdownWithMaths(answer).markdown.length).toBeGreaterThan(0)
  },
)
