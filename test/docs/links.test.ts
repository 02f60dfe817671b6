import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { hasValidChecksum } from '../../src/identity/auth/api-key.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const pages = globSync('**/*.md', { cwd: root, exclude: name => /^(node_modules|data|\..+)$/.test(name) }).sort()

/** Paths in running text, such as `src/request/relay/bill.ts`, must exist if they begin with one of these folders. */
const NAMED_FILE = /`((?:src|test|docs|sql|scripts|bench|bin)\/[\w./-]+)`/g
/** Home, work and temporary directories of the author's machine. */
const MACHINE_PATH = /(?<![\w.~/-])\/(?:home|Users|work|workspace|mnt|tmp)\/\w[^\s`)]*/g

test('there are pages', () => {
  expect(pages).toEqual(expect.arrayContaining(['README.md', 'docs/api.md', 'docs/errors.md']))
})

describe.each(pages)('%s', page => {
  const text = readFileSync(join(root, page), 'utf8')

  test('all links resolve', () => {
    const broken = linksOf(text).filter(link => !resolves(page, link))
    expect(broken).toEqual([])
  })

  test('all named files exist', () => {
    const missing = [...text.matchAll(NAMED_FILE)]
      .map(([, path]) => path!)
      .filter(path => !existsSync(join(root, path)))
    // Placeholders for new files.
    expect(missing.filter(path => !/NNNN|<|issue-n/.test(path))).toEqual([])
  })

  test("contains no path of the author's machine", () => {
    expect(text.match(MACHINE_PATH) ?? []).toEqual([])
    expect(text).not.toContain(root)
  })

  test('contains no real key', () => {
    const keys = text.match(/[sho]k-sy-[0-9A-Za-z]{38}/g) ?? []
    expect(
      keys.filter(key => (['sk-sy-', 'hk-sy-', 'ok-sy-'] as const).some(prefix => hasValidChecksum(key, prefix))),
    ).toEqual([])
  })
})

test('anchors are computed as on GitHub', () => {
  expect(anchorsOf('# What is billed\n## `GET /v1/models/{id}`\n### Twice\n### Twice\n## A, B and `c_d`\n')).toEqual(
    new Set(['what-is-billed', 'get-v1modelsid', 'twice', 'twice-1', 'a-b-and-c_d']),
  )
})

/** Returns the targets of all links within this repository, except links in code. */
function linksOf(text: string): string[] {
  const inline = withoutCode(text).matchAll(/\]\(([^()\s]+)\)/g)
  const references = withoutCode(text).matchAll(/^\[[^\]]+\]:\s+(\S+)$/gm)
  return [...inline, ...references].map(([, target]) => target!).filter(target => !/^[a-z]+:/.test(target))
}

function resolves(page: string, link: string): boolean {
  const [path = '', anchor] = link.split('#')
  const target = path === '' ? page : join(dirname(page), path)
  if (link.startsWith('/') || relative(root, join(root, target)).startsWith('..')) return false
  if (!existsSync(join(root, target))) return false
  if (anchor === undefined) return true
  return statSync(join(root, target)).isFile() && anchorsOf(readFileSync(join(root, target), 'utf8')).has(anchor)
}

/** Returns GitHub's anchors: lower case with letters, digits, `_` and `-`; spaces become `-`; a repeated heading gets `-1`. */
function anchorsOf(text: string): Set<string> {
  const seen = new Map<string, number>()
  const anchors = new Set<string>()
  for (const [, heading] of withoutFences(text).matchAll(/^#{1,6} +(.+?) *$/gm)) {
    const name = heading!
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_\- ]/gu, '')
      .replaceAll(' ', '-')
    const times = seen.get(name) ?? 0
    seen.set(name, times + 1)
    anchors.add(times === 0 ? name : `${name}-${times}`)
  }
  return anchors
}

function withoutCode(text: string): string {
  // A link whose text is code stays a link: `[`a`](b)` keeps its brackets.
  return withoutFences(text).replace(/`[^`\n]*`/g, '')
}

function withoutFences(text: string): string {
  return text.replace(/^( *)(```+|~~~+)[^\n]*\n[\s\S]*?^\1\2[^\n]*$/gm, '')
}
