import { t } from '@lingui/core/macro'
import type { ReactNode } from 'react'
import { Problem } from '../../api/request.ts'
import { Loaded } from '../../parts/Loaded.tsx'
import { ProblemBlock } from '../../parts/ProblemBlock.tsx'

/** Like `Loaded`, for the target of a link. Offers no retry if the link is missing or no longer valid. */
export function LinkLoaded<T>({
  token,
  query,
  children,
}: {
  token: string
  query: { readonly data: T | undefined; readonly error: Error | null; readonly refetch: () => unknown }
  children: (data: T) => ReactNode
}) {
  if (token === '') return <p role="alert">{t`A link opens this page. Open the link of your message again.`}</p>
  const { error } = query
  if (error instanceof Problem && error.code === 'link_expired') return <ProblemBlock error={error} />
  return (
    <Loaded query={query} height={240}>
      {children}
    </Loaded>
  )
}
