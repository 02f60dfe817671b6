/** The keys of an entry of `endpoints` that are kept sealed and never shown. */
export const providerSecrets = [
  'api_key',
  'google_service_account',
  'aws_access_key_id',
  'aws_secret_access_key',
  'aws_session_token',
] as const
export type ProviderSecrets = Readonly<Partial<Record<(typeof providerSecrets)[number], string>>>
