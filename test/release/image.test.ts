import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../../', import.meta.url))

test('the console builds from the files that the Dockerfile copies for it, and from no other', () => {
  const folder = mkdtempSync(join(tmpdir(), 'switchyard-image-'))
  try {
    const [stage] = readFileSync(join(root, 'deploy/Dockerfile'), 'utf8').split(/^FROM .* AS packages$/m)
    const copied = [...stage!.matchAll(/^COPY (.+) \S+$/gm)].flatMap(([, paths]) => paths!.split(' '))
    // As the ignore file says, and without the links of npm.
    for (const path of copied)
      cpSync(join(root, path), join(folder, path), {
        recursive: true,
        filter: source => !/\/console\/(?:dist|node_modules)$|\.test\.ts$/.test(source),
      })
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
    const vite = join(folder, 'node_modules/vite/bin/vite.js')
    execFileSync(process.execPath, [vite, 'build', 'console'], { cwd: folder, stdio: 'pipe' })
    expect(existsSync(join(folder, 'console/dist/pages.json'))).toBe(true)
  } finally {
    rmSync(folder, { recursive: true })
  }
})
