/** What reading the configuration again has changed: nothing, if there is a problem. */
export type ConfigReload =
  | { readonly problem: string }
  | {
      readonly problem: null
      /** The path of the file; null: there is none. */
      readonly file: string | null
      /** Of the endpoints, without their keys. */
      readonly changes: readonly { readonly path: string; readonly before: unknown; readonly after: unknown }[]
      /** The names of the endpoints with other keys. */
      readonly keysReplaced: readonly string[]
      /** The other settings that differ from those at the start. */
      readonly needsRestart: readonly string[]
    }
