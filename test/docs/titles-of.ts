import { readPage } from './page.ts'

/** The titles of all tests of a file, as its source has them. */
export function titlesOf(file: string): Set<string> {
  const titles = readPage(file).matchAll(/\(\s*(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`([^`\n]*)`),/g)
  return new Set([...titles].map(([, single, double, template]) => single ?? double ?? template!))
}
