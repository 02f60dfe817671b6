import { enableCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'

// This file is JavaScript because it is read before the cache is on: for a single file of TypeScript Node would load what strips
// types, and keep it, 13 MB.
//
// Before anything else is loaded: stripping types and compiling takes a third of a start and 20 to 35 MB that are never given back.
// The cache lies beside the packages, for whoever may write there, or where NODE_COMPILE_CACHE says; without it everything works, only slower.
enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/switchyard', import.meta.url)))

const { run } = await import('./cli/run.ts')
// Everything is closed by now. Whatever else would keep the process alive must not keep a supervisor from starting it again.
process.exit(await run(process.argv))
