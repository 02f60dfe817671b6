import '@fontsource-variable/atkinson-hyperlegible-mono/wght.css'
import '@fontsource-variable/atkinson-hyperlegible-next/wght.css'
import './theme/mantine-styles.ts'
import './theme/tokens.css'
import './theme/base.css'
import { localStorageColorSchemeManager, MantineProvider } from '@mantine/core'
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { setNonce } from 'get-nonce'
import { lazy, StrictMode, Suspense } from 'react'
import { createRoot } from 'react-dom/client'
import { fromGateway, watchTouches } from './api/gateway-link.ts'
import { hosterMembershipsQuery } from './api/hoster-queries.ts'
import { sessionQuery } from './api/queries.ts'
import { queryClient } from './api/query-client.ts'
import { router } from './router.tsx'
import { mantineVariables, theme } from './theme/theme.ts'

// No screen shows a notice before somebody has changed something.
const Notices = lazy(fromGateway(async () => ({ default: (await import('./shell/Notices.tsx')).Notices })))

// Vite writes the nonce of the response here. Style elements that are added later need it.
const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? ''
setNonce(nonce)

const root = document.querySelector('#root')!

watchTouches()
void start()

/**
 * Draws the screen once its script and the session are there. Until then the page keeps the frame that it came with.
 */
async function start(): Promise<void> {
  const needsSession = root.hasChildNodes() || location.pathname === '/'
  // These never reject: the screen shows what is missing.
  const read = [router.load()]
  if (needsSession)
    read.push(queryClient.prefetchQuery(sessionQuery), queryClient.prefetchQuery(hosterMembershipsQuery))
  await Promise.all(read)
  createRoot(root).render(
    <StrictMode>
      <MantineProvider
        theme={theme}
        cssVariablesResolver={mantineVariables}
        getStyleNonce={() => nonce}
        defaultColorScheme="auto"
        colorSchemeManager={localStorageColorSchemeManager({ key: 'switchyard-scheme' })}
      >
        <QueryClientProvider client={queryClient}>
          <RouterProvider router={router} />
          <Suspense>
            <Notices />
          </Suspense>
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  )
}
