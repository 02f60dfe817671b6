import { execFileSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { testFirstStart } from '../cli/first-start.ts'
import { runCli } from '../cli/run-cli.ts'
import { buildPackage, installPackage, readManifest, userPath } from './install-package.ts'

const sourceDir = fileURLToPath(new URL('../../src/', import.meta.url))

let directory: string
let archive: string
let packageDir: string
let program: string
// npm may have to download 100 MB, mostly Node and PostgreSQL.
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'switchyard-package-'))
  archive = await buildPackage(join(directory, 'build'))
  const installed = await installPackage(archive, join(directory, 'installed'))
  packageDir = installed.packageDir
  program = installed.program
}, 600_000)
afterAll(() => rm(directory, { recursive: true }))

// HOME is a directory without any configuration of npm or Node.
const installation = () => ({ program: [program], env: { PATH: userPath, HOME: directory } })

testFirstStart(installation)

test('the package holds plain JavaScript, and neither tests nor the simulator nor the benchmark', async () => {
  const { version } = await readManifest()
  expect(archive).toBe(join(directory, 'build', `switchyard-${version}.tgz`))
  const files = execFileSync('tar', ['-tzf', archive], { encoding: 'utf8' }).split('\n').filter(Boolean)
  const paths = files.map(file => file.replace(/^package\//, ''))
  expect([...new Set(paths.map(path => path.split('/')[0]!))].sort()).toEqual([
    'CHANGELOG.md',
    'LICENSE',
    'README.md',
    'bin',
    'console',
    'deploy',
    'dist',
    'docs',
    'package.json',
    'sql',
    'switchyard.example.yaml',
  ])
  expect(paths).toEqual(
    expect.arrayContaining([
      'bin/switchyard',
      'dist/cli.js',
      'dist/wire/demo-model/corpus.txt',
      'console/dist/index.html',
    ]),
  )
  expect(paths.filter(path => /\.ts$|\.test\./.test(path))).toEqual([])
})

test('stack traces name the lines and columns of the sources', async () => {
  const lengthsOf = (path: string) =>
    readFileSync(path, 'utf8')
      .split('\n')
      .map(line => line.length)
  const sources = globSync('**/*.ts', { cwd: sourceDir, exclude: ['**/*.test.ts'] })
  expect(sources.length).toBeGreaterThan(100)
  const moved = sources.filter(path => {
    const built = join(packageDir, 'dist', path.replace(/ts$/, 'js'))
    return String(lengthsOf(built)) !== String(lengthsOf(join(sourceDir, path)))
  })
  expect(moved).toEqual([])
})

test('the manifest has what a registry needs and no development packages', async () => {
  const { name, version, bin, dependencies, optionalDependencies } = await readManifest()
  const packed = JSON.parse(await readFile(join(packageDir, 'package.json'), 'utf8'))
  expect(packed).toMatchObject({ name, version, bin, dependencies, optionalDependencies })
  expect(packed.publishConfig).toEqual({ access: 'public' })
  for (const field of ['private', 'scripts', 'devDependencies']) expect(packed).not.toHaveProperty(field)
})

test('the version is the one of the manifest', async () => {
  const { version } = await readManifest()
  expect(await runCli(['--version'], { ...installation(), cwd: directory })).toEqual({
    code: 0,
    stdout: `${version}\n`,
    stderr: '',
  })
})
