declare module '*.module.css' {
  const names: Readonly<Record<string, string>>
  export default names
}

interface ImportMetaEnv {
  /** Written by texts-plugin.ts: "en", and the name of each file of texts/. */
  readonly LANGUAGES: readonly string[]
}
