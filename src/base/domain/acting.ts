/** The person or the program that acts. */
export interface Acting {
  /** Null: the key of a program, the command line, or the gateway itself. */
  readonly personId: string | null
  /** The key that the program used. Null: a person in the console, the command line, or the gateway itself. */
  readonly keyId: string | null
  /** The address of the client. Null: the command line, or the gateway itself. */
  readonly address: string | null
}

/** Its connections name the user of the operating system: see `PoolOptions` of base/db. */
export const commandLine = { personId: null, keyId: null, address: null } as const satisfies Acting
