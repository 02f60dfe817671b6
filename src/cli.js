import { enableCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'

// This file is JavaScript because Node reads it before the compile cache is enabled. For a single TypeScript file, Node would load its type
// stripper and keep it in memory: 13 MB.
//
// Enable the cache before everything else: stripping types and compiling takes a third of a start, and 20 to 35 MB that are never freed. The
// cache is in node_modules/.cache, or in NODE_COMPILE_CACHE. Without write access there, everything works, only slower.
enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/switchyard', import.meta.url)))

const { run } = await import('./cli/run.ts')
// Everything is closed. Exit explicitly: a leftover handle must not keep the process alive, or a supervisor would not restart it.
process.exit(await run(process.argv))
