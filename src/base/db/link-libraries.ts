import { existsSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'

/**
 * Creates the symbolic links between PostgreSQL's shared libraries, which an npm package cannot contain. The
 * package's own install script does the same, but npm 12 runs no install script that the user has not
 * approved. Throws an Error that says what to do when a link is missing and this user cannot create it.
 */
export function linkLibraries(packageName: string, packageDir: string): void {
  for (const { source, target } of linksOf(packageDir)) {
    const path = join(packageDir, target)
    if (existsSync(path)) continue
    try {
      symlinkSync(relative(dirname(target), source), path)
    } catch (error) {
      // Another process has just created the link.
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') continue
      throw new Error(
        `npm did not run the install script of ${packageName}, and this user cannot write to ${dirname(path)}. Install Switchyard again with --allow-scripts=${packageName}, or set DATABASE_URL to a PostgreSQL you run.`,
      )
    }
  }
}

interface Link {
  /** The existing file, relative to the package. */
  readonly source: string
  /** The link, relative to the package. */
  readonly target: string
}

function linksOf(packageDir: string): readonly Link[] {
  const path = join(packageDir, 'native', 'pg-symlinks.json')
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : []
}
