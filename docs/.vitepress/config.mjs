import { existsSync } from 'node:fs'
import { posix, resolve } from 'node:path'
import { defineConfig } from 'vitepress'

const root = resolve(import.meta.dirname, '../..')
const modules = resolve(root, 'docs/node_modules')
const repository = 'https://github.com/seed-45eadc4a/analytics-go'
const isPage = path => /^(docs\/)?[^/]+\.md$/.test(path)

// repositoryLinks replaces links to files that are not pages by links to the repository.
function repositoryLinks(md) {
  md.core.ruler.push('repository-links', ({ tokens, env }) => {
    const links = tokens.flatMap(token => token.children ?? []).filter(token => token.type === 'link_open')
    for (const link of links) {
      const [target] = link.attrGet('href').split('#')
      const path = posix.join(posix.dirname(env.relativePath), target)
      if (target && !target.includes(':') && !isPage(path) && existsSync(resolve(root, path)))
        link.attrSet('href', `${repository}/blob/main/${path}`)
    }
  })
}

// slugify returns the anchor of a heading on GitHub.
const slugify = heading => heading.toLowerCase().replace(/[^\w\- ]/g, '').replaceAll(' ', '-')

// Pages have the same relative paths as in the repository.
export default defineConfig({
  title: 'analytics-go',
  description: 'A Go client for the Segment tracking API, and a collector that you run yourself',
  base: '/analytics-go/',
  srcDir: '..',
  srcExclude: ['!(docs)/**/*', 'nemesis.md'],
  rewrites: { 'README.md': 'index.md', 'docs/README.md': 'docs/index.md' },
  appearance: 'force-auto', // <picture> elements follow the system's color scheme
  // Pages outside docs cannot find packages in docs/node_modules.
  vite: {
    resolve: {
      alias: [
        { find: /^vue$/, replacement: resolve(modules, 'vue/dist/vue.runtime.esm-bundler.js') },
        { find: /^vue\/server-renderer$/, replacement: resolve(modules, '@vue/server-renderer/dist/server-renderer.esm-bundler.js') },
      ],
    },
  },
  markdown: { config: repositoryLinks, anchor: { slugify } },
  themeConfig: {
    search: { provider: 'local' },
    outline: 'deep',
    socialLinks: [{ icon: 'github', link: repository }],
    editLink: { pattern: `${repository}/edit/main/:path` },
    nav: [
      { text: 'Changelog', link: '/CHANGELOG' },
      { text: 'Go reference', link: 'https://pkg.go.dev/github.com/seed-45eadc4a/analytics-go' },
    ],
    sidebar: [
      ['Overview', '/'], ['Send calls', '/docs/client'], ['Migrate', '/MIGRATING'], ['Test', '/docs/testing'], ['Coding agents', '/docs/mcp'],
      ['Tracking plans', '/docs/plans'], ['Inspector', '/docs/inspector'], ['Webhooks', '/docs/webhooks'], ['Relays', '/docs/relay'],
      ['Operate', '/docs/operating'], ['Configuration', '/docs/configuration'], ['Cluster', '/docs/cluster'],
      ['Reliability', '/docs/reliability'], ['Performance', '/docs/performance'], ['Scaling', '/docs/scaling'],
      ['Comparison', '/docs/comparison'], ['Architecture', '/ARCHITECTURE'], ['Contributing', '/CONTRIBUTING'],
    ].map(([text, link]) => ({ text, link })),
  },
})
