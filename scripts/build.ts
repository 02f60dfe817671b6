// Builds the npm package. `npm run build` writes build/switchyard-<version>.tgz; an argument names another directory.
// Node refuses to strip types below node_modules, so the package holds plain JavaScript.
import { execFileSync } from 'node:child_process'
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Record<string, unknown>

const COPIED_PATHS = 'bin console/dist sql deploy docs switchyard.example.yaml README.md LICENSE CHANGELOG.md'.split(
  ' ',
)

/** The fields of package.json that an installed package needs. */
const MANIFEST_FIELDS =
  'name version description license publishConfig type engines bin dependencies optionalDependencies'.split(' ')

console.log(build(resolve(process.argv[2] ?? join(root, 'build'))))

/** Returns the path of the archive. */
function build(directory: string): string {
  mkdirSync(directory, { recursive: true })
  const staged = mkdtempSync(join(directory, 'package-'))
  for (const path of globSync('src/**/*.*', { cwd: root, exclude: ['**/*.test.ts'] })) addProgramFile(path, staged)
  for (const path of COPIED_PATHS) cpSync(join(root, path), join(staged, path), { recursive: true })
  const fields = MANIFEST_FIELDS.map(name => [name, manifest[name]])
  write(join(staged, 'package.json'), `${JSON.stringify(Object.fromEntries(fields), null, 2)}\n`)

  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', directory]
  const packed = execFileSync('npm', args, { cwd: staged, encoding: 'utf8' })
  const archive = join(directory, `switchyard-${manifest.version}.tgz`)
  renameSync(join(directory, fileNameIn(packed)), archive)
  rmSync(staged, { recursive: true })
  return archive
}

/** Writes `src/x.ts` to `dist/x.js`. Stripping leaves blanks in place of types, so stack traces keep lines and columns. */
function addProgramFile(path: string, staged: string): void {
  const target = join(staged, path.replace(/^src/, 'dist').replace(/\.ts$/, '.js'))
  const source = readFileSync(join(root, path), 'utf8')
  if (path.endsWith('.ts')) write(target, withJsImports(stripTypeScriptTypes(source)))
  else if (path.endsWith('.js')) write(target, withJsImports(source))
  else write(target, source)
}

/** './worker.ts' becomes './worker.js', in imports and in `new URL`. */
function withJsImports(source: string): string {
  return source.replace(/(['"])(\.\.?\/[^'"\n]*)\.ts\1/g, '$1$2.js$1')
}

/** npm 11 prints a list, npm 12 an object with a key for each package. */
function fileNameIn(packed: string): string {
  const [report] = Object.values(JSON.parse(packed)) as { filename: string }[]
  return report!.filename
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}
