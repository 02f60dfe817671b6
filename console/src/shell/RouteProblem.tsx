import { t } from '@lingui/core/macro'
import { Page } from '../parts/Page.tsx'
import { ProblemBlock } from '../parts/ProblemBlock.tsx'

/**
 * Shown when a screen fails to load or to draw. After an update of the gateway, its old files are gone: reloading
 * helps.
 */
export function RouteProblem({ error }: { error: unknown }) {
  return (
    <Page title={t`This page failed`}>
      <ProblemBlock error={error} onRetry={() => location.reload()} />
    </Page>
  )
}
